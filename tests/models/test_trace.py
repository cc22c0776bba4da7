"""Families that nothing is known of beforehand: read from the model, against bare passes."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import transformers

from repalign.exceptions import InputError, ModelError
from repalign.models.capture import (
    Batch,
    encode,
    fit_views,
    flatten_positions,
    make_views,
    probe_shapes,
)
from repalign.models.inputs.text import load_text_inputs, pad_batch
from repalign.models.load import load_encoder
from repalign.models.trace import image_structure

TEXT = {
    "gemma": False, "gemma2": False, "gemma3_text": False, "phi": False, "opt": False,
    "bloom": False, "mamba": False, "rwkv": False, "t5": True, "bart": True, "deberta-v2": True,
    "electra": True, "albert": True, "modernbert": True, "esm": True, "mpnet": True,
    "data2vec-text": True, "clip::text": False, "siglip::text": True,
}  # fmt: skip
# tokens before the patches, None where there are no patches
IMAGES: dict[str, int | None] = {
    "dinov2_with_registers": 3, "dinov3_vit": 3, "beit": 1, "data2vec-vision": 1, "swin": None,
    "convnext": None, "convnextv2": None, "hiera": None, "clip::vision": 1, "siglip::vision": 0,
}  # fmt: skip


def encoder_of(whole: Any, part: str) -> Any:
    if part:
        return getattr(whole, f"{part}_model")
    return whole.get_encoder() if whole.config.is_encoder_decoder else whole


@pytest.mark.parametrize("name", TEXT)
def test_text_rows_equal_a_bare_pass_alone(tiny: ModuleType, tmp_path: Path, name: str) -> None:
    kind, _, part = name.partition("::")
    plain = encoder_of(tiny.save_other(tmp_path / kind, kind), part).eval()
    model = load_encoder(str(tmp_path / kind) + (f"::{part}" if part else ""))
    assert model.needs_mask == TEXT[name]
    encoder = load_text_inputs(model)
    ids = encoder.encode(tiny.TEXTS)
    with torch.no_grad():
        bare = [plain(torch.from_numpy(i)[None]).last_hidden_state[0] for i in ids]
    inputs, lengths = pad_batch(ids, encoder.pad_id, masked=model.needs_mask)
    batch = Batch(inputs, lengths, flatten_positions([torch.arange(len(i)).numpy() for i in ids]))
    (view,) = make_views(model, ("final",), ("token",))
    rows = encode(model, [view], batch)["final"]
    expected = torch.cat(bare)
    torch.testing.assert_close(rows, expected, atol=1e-5 * float(expected.std()) + 1e-5, rtol=1e-4)
    assert expected.std() > 0.01, "the comparison must not be of zeros"
    if name != "albert":
        assert len(model.layers.blocks) == 3
        encode(model, make_views(model, ("0", "all"), ("mean",)), batch)
    else:
        with pytest.raises(InputError, match="no list of blocks"):
            make_views(model, ("-1",))


@pytest.mark.parametrize("name", IMAGES)
def test_image_rows_equal_a_bare_pass(tiny: ModuleType, tmp_path: Path, name: str) -> None:
    kind, _, part = name.partition("::")
    plain = encoder_of(tiny.save_other(tmp_path / kind, kind), part).eval()
    model = load_encoder(str(tmp_path / kind) + (f"::{part}" if part else ""))
    prefix = IMAGES[name]
    assert model.image_size is not None
    pixels = torch.randn(3, *model.image_size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        last = plain(pixels).last_hidden_state
    views = make_views(model, ("final",))
    views = fit_views(model, views, probe_shapes(model, [views[0].tap]))
    rows = encode(model, views, Batch({"pixel_values": pixels}))["final"]
    if last.ndim == 4:
        with torch.no_grad():
            expected = plain(pixels).pooler_output.flatten(1)
    else:
        expected = last[:, prefix or 0 :].mean(1)
    torch.testing.assert_close(rows, expected, atol=1e-5, rtol=1e-4)
    assert (model.family.name == "vit") == (prefix is not None)
    assert ("cls" in model.family.pools) == bool(prefix)
    views = make_views(model, ("0", "all"))
    taps = [view.tap for view in views]
    views = fit_views(model, views, probe_shapes(model, taps))
    encode(model, views, Batch({"pixel_values": pixels}))


def test_a_model_of_two_encoders_needs_a_choice(tiny: ModuleType, tmp_path: Path) -> None:
    tiny.save_other(tmp_path / "clip", "clip")
    tiny.save_other(tmp_path / "opt", "opt")
    for text in ("clip", "clip::audio"):
        with pytest.raises(InputError, match="clip::text or clip::vision"):
            load_encoder(str(tmp_path / text))
    with pytest.raises(InputError, match=r"type opt; .* opt$"):
        load_encoder(str(tmp_path / "opt::text"))
    assert load_encoder(str(tmp_path / "clip::text")).origin.model == "clip::text"


def test_tokens_that_do_not_fit_the_patches_are_refused(tiny: ModuleType, tmp_path: Path) -> None:
    whole = tiny.save_other(tmp_path / "dino", "dinov2_with_registers")
    assert image_structure(whole, "dino", (3, 32, 32))["prefix_tokens"] == 3
    whole.config.patch_size = 4
    with pytest.raises(ModelError, match=r"dino .*19 tokens .*64 patches"):
        image_structure(whole, "dino", (3, 32, 32))


def test_a_model_of_other_inputs_is_refused(tiny: ModuleType, tmp_path: Path) -> None:
    settings = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.ASTConfig(**settings, intermediate_size=32, max_length=64)
    transformers.ASTModel(config).save_pretrained(tmp_path / "spectra")
    with pytest.raises(ModelError, match=r"states .*sound"):
        load_encoder(str(tmp_path / "spectra"))
    lengths = {"prediction_length": 4, "context_length": 8, "d_model": 16}
    series = transformers.TimeSeriesTransformerConfig(**lengths, lags_sequence=[1, 2])
    transformers.TimeSeriesTransformerModel(series).save_pretrained(tmp_path / "series")
    with pytest.raises(ModelError, match="past_values"):
        load_encoder(str(tmp_path / "series"))
