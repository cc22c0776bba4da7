"""What `models show` says of a model."""

from pathlib import Path
from types import ModuleType

import pytest

from repalign.exceptions import InputError
from repalign.models.describe import describe_model


def test_a_text_model_is_described(tiny: ModuleType, tmp_path: Path) -> None:
    found = describe_model(str(tiny.save_transformers(tmp_path / "bert", "bert")), layers=["-2"])
    assert (found.family, found.kind) == ("encoder", "text")
    assert [(line.layer, line.columns) for line in found.layers] == [
        ("0", 32), ("1", 32), ("2", 32), ("final", 32),
    ]  # fmt: skip
    assert found.views == (("block-2", "encoder.layer.1", "mean"),)
    assert found.parameters > 10_000
    assert "up to 40 tokens" in found.prepared


def test_layers_of_a_cnn_have_their_own_sizes(tiny: ModuleType, tmp_path: Path) -> None:
    found = describe_model(str(tiny.save_timm(tmp_path / "resnet", "resnet")))
    sizes = [(line.layer, line.columns, line.positions) for line in found.layers]
    assert sizes[-1] == ("final", 32, "1")
    assert [columns for _, columns, _ in sizes[1:5]] == [64, 8, 16, 24]
    assert found.views == (("final", "returned value", "avg"),)


def test_what_is_missing_is_said_and_wrong_layers_are_refused(
    tiny: ModuleType, tmp_path: Path
) -> None:
    directory = tiny.save_transformers(tmp_path / "vit", "vit")
    (directory / "preprocessor_config.json").unlink()
    assert "--preprocess canonical32" in describe_model(str(directory)).prepared
    named = describe_model(str(directory), preprocess="canonical32").prepared
    assert named.startswith("canonical32: resize 36, crop (32, 32)")
    with pytest.raises(InputError, match="no layer 12"):
        describe_model(str(directory), layers=["12"])


def test_a_model_of_sounds_says_what_it_hears(tiny: ModuleType, tmp_path: Path) -> None:
    tiny.save_sound_model(tmp_path / "wave", "wav2vec2")
    tiny.save_sound_model(tmp_path / "window", "whisper")
    wave, window = (describe_model(str(tmp_path / name)) for name in ("wave", "window"))
    assert {line.positions for line in wave.layers} == {"states"}
    assert {line.positions for line in window.layers} == {"100"}
    assert wave.prepared == "Wav2Vec2FeatureExtractor at 16000 Hz"
    assert window.prepared == "WhisperFeatureExtractor at 16000 Hz"
