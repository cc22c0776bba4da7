"""Extraction from sounds: rows are those of the library, alone and in a batch."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import transformers

from repalign.exceptions import InputError, ModelError
from repalign.extraction.run import extract
from repalign.extraction.settings import ExtractSettings
from repalign.models.load import load_encoder
from repalign.store import open_store

SECONDS = (0.5, 0.31, 0.8, 0.5)


@pytest.fixture(scope="module")
def sounds(tiny: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_sounds(tmp_path_factory.mktemp("sounds") / "noise", SECONDS)


def run(model: Path, data: Path, output: Path, **more: Any) -> Any:
    return extract(ExtractSettings(model=str(model), data=str(data), output=output, **more))


def states(whole: Any, directory: Path, file: Path) -> np.ndarray:
    """The library's own states of one sound, padded by nothing but the model's own window."""
    wave, rate = soundfile.read(file, dtype="float32")
    extractor = transformers.AutoFeatureExtractor.from_pretrained(directory)
    inputs = extractor(wave, sampling_rate=rate, return_tensors="pt")
    is_whisper = "input_features" in inputs
    encoder = whole.get_encoder() if is_whisper else whole
    with torch.no_grad():
        last = encoder(next(iter(inputs.values()))).last_hidden_state[0]
    if is_whisper:  # a state for each 20 ms of the sound, silence behind
        last = last[: (-(-len(wave) // 160) - 1) // 2 + 1]
    return last.numpy()


# torch, of the two masks that WavLM gives it
@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask:UserWarning")
@pytest.mark.parametrize(
    "kind",
    ["wav2vec2", "wav2vec2-layer", "hubert", "hubert-layer", "wavlm", "data2vec-audio", "whisper"],
)
def test_rows_are_those_of_the_library_one_sound_at_a_time(
    tiny: ModuleType, sounds: Path, tmp_path: Path, kind: str
) -> None:
    whole = tiny.save_sound_model(tmp_path / kind, kind)
    run(tmp_path / kind, sounds, tmp_path / "a.h5", layers=("final", "2"), batch_size=100_000)
    with open_store(tmp_path / "a.h5") as store:
        rows = store.view("final").read(0, len(store))
        assert list(store.index.slice(0, 4).ids) == [b"0.wav", b"1.wav", b"2.wav", b"3.wav"]
        assert store.view("block-2").read(0, 4).shape == (4, 32)
    expected = [states(whole, tmp_path / kind, sounds / f"{k}.wav").mean(0) for k in range(4)]
    assert np.abs(rows - np.array(expected)).max() < 1e-5 * np.abs(expected).max()


def test_tokens_of_padded_sounds_are_those_of_each(
    tiny: ModuleType, sounds: Path, tmp_path: Path
) -> None:
    whole = tiny.save_sound_model(tmp_path / "m", "hubert-layer")
    result = run(tmp_path / "m", sounds, tmp_path / "a.h5", pools=("token",), batch_size=100_000)
    expected = [states(whole, tmp_path / "m", sounds / f"{k}.wav") for k in range(4)]
    assert len({len(part) for part in expected}) == 3
    assert result.n_rows == sum(map(len, expected))
    with open_store(tmp_path / "a.h5") as store:
        rows = store.view("final").read(0, len(store))
    assert np.allclose(rows, np.concatenate(expected), atol=1e-5)


def test_where_padding_changes_a_sound_only_equal_lengths_share_a_batch(
    tiny: ModuleType, tmp_path: Path
) -> None:
    found = {}
    for kind in ("wav2vec2", "wav2vec2-layer", "whisper"):
        tiny.save_sound_model(tmp_path / kind, kind)
        sound = load_encoder(str(tmp_path / kind)).sound
        assert sound is not None
        found[kind] = sound.needs_equal_lengths
    assert found == {"wav2vec2": True, "wav2vec2-layer": False, "whisper": False}


def test_what_a_window_cuts_is_counted_and_said(tiny: ModuleType, tmp_path: Path) -> None:
    tiny.save_sound_model(tmp_path / "m", "whisper")
    sounds = tiny.save_sounds(tmp_path / "long", (1.0, 2.5, 3.0))
    result = run(tmp_path / "m", sounds, tmp_path / "a.h5")
    assert result.n_cut == 2
    assert any("2 of 3 " in w for w in result.warnings)


def test_sounds_of_another_rate_and_two_channels_are_brought_to_the_models(
    tiny: ModuleType, tmp_path: Path
) -> None:
    tiny.save_sound_model(tmp_path / "m", "wav2vec2")
    rows = []
    for name, rate in (("a", 16_000), ("b", 44_100)):
        time = np.arange(rate) / rate
        wave = 0.3 * np.sin(2 * np.pi * 440 * time) + 0.2 * np.sin(2 * np.pi * 1000 * time)
        (tmp_path / name).mkdir()
        soundfile.write(tmp_path / name / "tone.wav", np.stack([wave, wave], 1), rate, "FLOAT")
        run(tmp_path / "m", tmp_path / name, tmp_path / f"{name}.h5")
        with open_store(tmp_path / f"{name}.h5") as store:
            rows.append(store.view("final").read(0, 1))
    assert np.abs(rows[0] - rows[1]).max() < 0.02 * np.abs(rows[0]).max()


def test_what_cannot_be_heard_is_one_line_that_names_the_file(
    tiny: ModuleType, sounds: Path, tmp_path: Path
) -> None:
    tiny.save_sound_model(tmp_path / "m", "wav2vec2")
    for name, raw, said in (
        ("text", b"this is no sound at all", "readable sound"),
        ("short", (tmp_path / "x.wav", 20), "too short"),
        ("empty", (tmp_path / "x.wav", 0), "holds no sound"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        if isinstance(raw, bytes):
            (folder / "x.wav").write_bytes(raw)
        else:
            soundfile.write(folder / "x.wav", np.zeros(raw[1]), 16_000)
        with pytest.raises(InputError, match=said):
            run(tmp_path / "m", folder, tmp_path / f"{name}.h5")
        assert not list(tmp_path.glob(f"{name}.h5*"))
    (tmp_path / "m" / "preprocessor_config.json").unlink()
    with pytest.raises(ModelError, match="without preprocessor_config"):
        run(tmp_path / "m", sounds, tmp_path / "c.h5")


def test_a_layer_before_the_states_of_time_is_refused(
    tiny: ModuleType, sounds: Path, tmp_path: Path
) -> None:
    tiny.save_sound_model(tmp_path / "m", "wav2vec2")
    with pytest.raises(InputError, match=r"8 positions"):
        run(
            tmp_path / "m",
            sounds,
            tmp_path / "a.h5",
            layers=("feature_extractor.conv_layers.1",),
        )


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("wav2vec2", {"sampling_rate": 10**9}),
        ("wav2vec2", {"sampling_rate": 0}),
        ("wav2vec2", {"sampling_rate": "16000"}),
        ("whisper", {"n_fft": 2**31}),
        ("whisper", {"hop_length": 0}),
        ("whisper", {"chunk_length": 10**6}),
        ("whisper", {"chunk_length": 1800, "sampling_rate": 768_000}),
        ("whisper", {"feature_size": 2**20}),
    ],
)
def test_sizes_of_feature_extractors_are_bounded_before_they_are_built(
    tiny: ModuleType, sounds: Path, tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    tiny.save_sound_model(tmp_path / "m", kind)
    path = tmp_path / "m" / "preprocessor_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ModelError, match="feature extractor"):
        run(tmp_path / "m", sounds, tmp_path / "a.h5")


def test_a_sound_that_becomes_too_long_at_the_models_rate_is_refused(
    tiny: ModuleType, tmp_path: Path
) -> None:
    tiny.save_sound_model(tmp_path / "m", "wav2vec2")
    path = tmp_path / "m" / "preprocessor_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "sampling_rate": 768_000}))
    (tmp_path / "long").mkdir()
    soundfile.write(tmp_path / "long" / "x.flac", np.zeros(400_000), 1000)
    with pytest.raises(InputError, match=r"x\.flac.*cut it"):
        run(tmp_path / "m", tmp_path / "long", tmp_path / "a.h5")
