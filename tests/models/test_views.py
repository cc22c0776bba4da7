"""Every family's views against plain forward passes of the library that owns the model."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import timm
import torch
import torchvision
import transformers

from repalign.exceptions import InputError, ModelError
from repalign.models.capture import (
    Batch,
    as_sequence,
    encode,
    fit_views,
    flatten_positions,
    make_views,
    probe_shapes,
)
from repalign.models.encoder import Tap
from repalign.models.inputs.text import load_text_inputs, pad_batch
from repalign.models.load import load_encoder

DECODERS = ("gpt_neox", "gpt2", "llama", "mistral", "qwen2", "qwen3", "olmo2")
ENCODERS = ("bert", "roberta", "xlm-roberta", "distilbert")
VITS = {"vit": 1, "deit": 2, "dinov2": 1, "vit_mae": 1}
TEXT_LAYERS = ("final", "-1", "-2", "0")


def plain_text_states(directory: Path, texts: tuple[str, ...], family: str) -> list[dict[str, Any]]:
    """Hidden states of every text alone, without padding, by the library's own classes."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
    model = transformers.AutoModel.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    states = []
    raw: dict[str, torch.Tensor] = {}
    blocks = model.get_submodule(
        {"gpt2": "h", "distilbert": "transformer.layer"}.get(
            family, "encoder.layer" if family in ENCODERS else "layers"
        )
    )
    blocks[-1].register_forward_hook(
        lambda _m, _a, out: raw.update(last=out[0] if isinstance(out, tuple) else out)
    )
    for text in texts:
        with torch.no_grad():
            out = model(
                **tokenizer(text, return_tensors="pt", return_token_type_ids=False),
                output_hidden_states=True,
            )
        states.append(
            {
                "final": out.last_hidden_state[0],
                "-1": raw["last"][0],
                "-2": out.hidden_states[-2][0],
                "0": out.hidden_states[0][0],
            }
        )
    return states


def our_text_rows(directory: Path, texts: tuple[str, ...], pool: str, size: int) -> dict[str, Any]:
    model = load_encoder(str(directory))
    encoder = load_text_inputs(model)
    views = make_views(model, TEXT_LAYERS, [pool])
    rows: dict[str, list[torch.Tensor]] = {view.key: [] for view in views}
    for start in range(0, len(texts), size):
        ids = encoder.encode(texts[start : start + size])
        inputs, lengths = pad_batch(ids, encoder.pad_id, masked=model.needs_mask)
        positions = [np.arange(len(sample)) for sample in ids]
        batch = Batch(inputs, lengths, flatten_positions(positions))
        for key, values in encode(model, views, batch).items():
            rows[key].append(values)
    return {
        layer: torch.cat(rows[view.key]) for layer, view in zip(TEXT_LAYERS, views, strict=True)
    }


def pooled(state: torch.Tensor, pool: str) -> torch.Tensor:
    return {
        "token": state,
        "mean": state.mean(0, keepdim=True),
        "last": state[-1:],
        "cls": state[:1],
    }[pool]


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("family", [*DECODERS, *ENCODERS])
def test_text_views_equal_a_plain_forward_pass(
    tiny: ModuleType, tmp_path: Path, family: str, size: int
) -> None:
    directory = tiny.save_transformers(tmp_path / family, family)
    states = plain_text_states(directory, tiny.TEXTS, family)
    for pool in ("token", "mean", "last", *(["cls"] if family in ENCODERS else [])):
        rows = our_text_rows(directory, tiny.TEXTS, pool, size)
        for layer in TEXT_LAYERS:
            expected = torch.cat([pooled(state[layer], pool) for state in states])
            torch.testing.assert_close(rows[layer], expected, atol=1e-5, rtol=1e-5)
            assert expected.std() > 0.1, "the comparison must not be of zeros"


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_an_encoder_trained_as_a_decoder_is_causal_alone_and_in_batches(
    tiny: ModuleType, tmp_path: Path, family: str
) -> None:
    directory = tiny.save_transformers(tmp_path / family, family)
    config = directory / "config.json"
    two_sided = our_text_rows(directory, tiny.TEXTS, "token", 16)["final"]
    config.write_text(json.dumps({**json.loads(config.read_text()), "is_decoder": True}))
    states = plain_text_states(directory, tiny.TEXTS, family)
    for size in (1, 16):
        rows = our_text_rows(directory, tiny.TEXTS, "token", size)
        for layer in TEXT_LAYERS:
            expected = torch.cat([state[layer] for state in states])
            torch.testing.assert_close(rows[layer], expected, atol=1e-5, rtol=1e-5)
    assert (rows["final"] - two_sided).abs().max() > 0.01, "far more than the tolerance"
    with pytest.raises(InputError, match=r"pooling 'cls' .*decoder"):
        our_text_rows(directory, tiny.TEXTS, "cls", 16)


def test_final_is_not_the_last_block_of_a_decoder(tiny: ModuleType, tmp_path: Path) -> None:
    model = load_encoder(str(tiny.save_transformers(tmp_path / "neox", "gpt_neox")))
    assert model.layers.final.module == "final_layer_norm"
    assert model.layers.pre_norm is not None
    assert model.layers.pre_norm == Tap("pre-norm", "final_layer_norm", "input")


def plain_vit_states(directory: Path, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
    model = transformers.AutoModel.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    extra = {}
    if model.config.model_type == "vit_mae":
        model.config.mask_ratio = 0.0
        extra["noise"] = torch.arange(16.0).expand(len(pixels), -1)
    with torch.no_grad():
        out = model(pixel_values=pixels, output_hidden_states=True, **extra)
    return {"final": out.last_hidden_state, "-2": out.hidden_states[-2]}


def our_image_rows(name: str, pixels: torch.Tensor, layers: list[str], pool: str, size: int) -> Any:
    model = load_encoder(name)
    views = make_views(model, layers, [pool])
    shapes = probe_shapes(model, [view.tap for view in views], pixels.shape[2:])
    views = fit_views(model, views, shapes)
    rows: dict[str, list[torch.Tensor]] = {view.key: [] for view in views}
    for start in range(0, len(pixels), size):
        part = pixels[start : start + size]
        count = shapes[views[0].tap.label].positions
        assert count is not None
        kept = np.arange(count - (views[0].prefix if count > 1 else 0))
        batch = Batch({"pixel_values": part}, tokens=flatten_positions([kept] * len(part)))
        for key, values in encode(model, views, batch).items():
            rows[key].append(values)
    return [torch.cat(rows[view.key]) for view in views]


def random_pixels(count: int = 18, side: int = 32) -> torch.Tensor:
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(7))


def pooled_patches(states: torch.Tensor, pool: str, prefix: int) -> torch.Tensor:
    return {
        "patch-mean": states[:, prefix:].mean(1),
        "cls": states[:, 0],
        "mean": states.mean(1),
        "token": states[:, prefix:].flatten(0, 1),
    }[pool]


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("family", VITS)
def test_vit_views_equal_a_plain_forward_pass(
    tiny: ModuleType, tmp_path: Path, family: str, size: int
) -> None:
    directory = tiny.save_transformers(tmp_path / family, family)
    pixels = random_pixels()
    states = plain_vit_states(directory, pixels)
    for pool in ("patch-mean", "cls", "mean", "token"):
        rows = our_image_rows(str(directory), pixels, ["final", "-2"], pool, size)
        for ours, layer in zip(rows, ("final", "-2"), strict=True):
            expected = pooled_patches(states[layer], pool, VITS[family])
            torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def test_vit_mae_gives_identical_rows_in_data_order_twice(tiny: ModuleType, tmp_path: Path) -> None:
    directory = tiny.save_transformers(tmp_path / "mae", "vit_mae")
    pixels = random_pixels()
    first = our_image_rows(str(directory), pixels, ["final"], "token", 16)[0]
    second = our_image_rows(str(directory), pixels, ["final"], "token", 16)[0]
    assert torch.equal(first, second)
    reversed_rows = our_image_rows(str(directory), pixels.flip(0), ["final"], "token", 16)[0]
    torch.testing.assert_close(
        reversed_rows.unflatten(0, (18, 16)).flip(0).flatten(0, 1), first, atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("kind", ["vit", "mae"])
def test_timm_vit_views_equal_a_plain_forward_pass(
    tiny: ModuleType, tmp_path: Path, kind: str, size: int
) -> None:
    directory = tiny.save_timm(tmp_path / kind, kind)
    plain, pixels = tiny.build_timm(kind), random_pixels()
    with torch.no_grad():
        final = plain.forward_features(pixels)
        before = plain.forward_intermediates(
            pixels, indices=[1], norm=False, output_fmt="NLC", intermediates_only=True
        )[0]
    for pool in ("patch-mean", "cls", "token"):
        rows = our_image_rows(str(directory), pixels, ["final", "-2"], pool, size)
        expected = pooled_patches(final, pool, 1)
        torch.testing.assert_close(rows[0], expected, atol=1e-5, rtol=1e-5)
        if pool in ("patch-mean", "token"):  # the library's call drops the class token
            expected = pooled_patches(before, pool, 0)
            torch.testing.assert_close(rows[1], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("kind", ["resnet", "convnext", "mobilenet"])
def test_timm_cnn_views_equal_a_plain_forward_pass(
    tiny: ModuleType, tmp_path: Path, kind: str, size: int
) -> None:
    directory = tiny.save_timm(tmp_path / kind, kind)
    plain, pixels = tiny.build_timm(kind), random_pixels()
    with torch.no_grad():
        features = plain.forward_features(pixels)
        final = plain.forward_head(features, pre_logits=True)
        *_, earlier, maps = plain.forward_intermediates(pixels, intermediates_only=True)
    rows = our_image_rows(str(directory), pixels, ["final", "-1"], "avg", size)
    torch.testing.assert_close(rows[0], final, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rows[1], maps.mean((2, 3)), atol=1e-5, rtol=1e-5)
    if kind == "resnet":
        torch.testing.assert_close(rows[0], features.mean((2, 3)), atol=1e-5, rtol=1e-5)
        tokens = our_image_rows(str(directory), pixels, ["-2"], "token", size)[0]
        expected = earlier.flatten(2).transpose(1, 2).flatten(0, 1)
        torch.testing.assert_close(tokens, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 16])
def test_torchvision_resnet_views_equal_a_plain_forward_pass(
    tiny: ModuleType, tmp_path: Path, size: int
) -> None:
    plain: Any = tiny.shake(torchvision.models.resnet18(num_classes=5), 3)
    # old checkpoints have no counters of training steps
    state = {k: v for k, v in plain.state_dict().items() if "num_batches" not in k}
    torch.save(state, tmp_path / "resnet.pth")
    pixels = random_pixels(6, side=64)
    rows = our_image_rows(
        f"torchvision:resnet18@{tmp_path / 'resnet.pth'}",
        pixels,
        ["final", "-1", "layer2.0.bn1"],
        "avg",
        size,
    )
    with torch.no_grad():
        stem = plain.maxpool(plain.relu(plain.bn1(plain.conv1(pixels))))
        second = plain.layer1(stem)
        inner = plain.layer2[0].bn1(plain.layer2[0].conv1(second))
        maps = plain.layer4(plain.layer3(plain.layer2(second)))
    torch.testing.assert_close(rows[0], maps.mean((2, 3)), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rows[1], maps.mean((2, 3)), atol=1e-5, rtol=1e-5)
    # the ReLU behind this layer works in place in the plain model
    torch.testing.assert_close(rows[2], inner.mean((2, 3)), atol=1e-5, rtol=1e-5)
    assert rows[2].min() < 0


@pytest.mark.parametrize("size", [1, 16])
def test_transformers_resnet_views_equal_a_plain_forward_pass(
    tiny: ModuleType, tmp_path: Path, size: int
) -> None:
    directory = tiny.save_transformers(tmp_path / "resnet", "resnet")
    plain = transformers.ResNetModel.from_pretrained(directory).eval()
    pixels = random_pixels()
    with torch.no_grad():
        out = plain(pixels, output_hidden_states=True)
    rows = our_image_rows(str(directory), pixels, ["final", "-2"], "avg", size)
    torch.testing.assert_close(rows[0], out.pooler_output.flatten(1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rows[1], out.hidden_states[-2].mean((2, 3)), atol=1e-5, rtol=1e-5)


def test_timm_and_transformers_agree_on_the_same_mae_weights(
    tiny: ModuleType, tmp_path: Path
) -> None:
    source = tiny.build_timm("mae", seed=5)
    original = {**source.state_dict(), "decoder_embed.weight": torch.zeros(2, 2)}
    original["mask_token"] = torch.zeros(1, 1, 2)
    torch.save({"model": original}, tmp_path / "mae.pth")
    directory = save_as_transformers(source, tmp_path / "hf")
    pixels = random_pixels()
    layers = ["final", "pre-norm", "-2"]
    ours = our_image_rows(f"mae:{tmp_path / 'mae.pth'}", pixels, layers, "patch-mean", 16)
    theirs = our_image_rows(str(directory), pixels, layers, "patch-mean", 16)
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


def save_as_transformers(source: Any, directory: Path) -> Path:
    """Write a timm ViT as a transformers ViT-MAE with the eps that timm uses."""
    config = transformers.ViTMAEConfig(
        hidden_size=192,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=768,
        image_size=32,
        patch_size=8,
        layer_norm_eps=1e-6,
    )
    model = transformers.ViTMAEModel(config)
    names = list(model.state_dict())
    model.load_state_dict({name: converted(name, source.state_dict()) for name in names})
    model.save_pretrained(directory)
    return directory


TIMM_NAMES = {
    "embeddings.patch_embeddings.projection": "patch_embed.proj",
    "embeddings.cls_token": "cls_token",
    "embeddings.position_embeddings": "pos_embed",
    "attention.o_proj": "attn.proj",
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
    "layernorm": "norm",
    "layers.": "blocks.",
}


def converted(name: str, state: dict[str, torch.Tensor]) -> torch.Tensor:
    """The weight of a timm ViT that transformers calls by this name."""
    for number, part in enumerate(("q_proj", "k_proj", "v_proj")):
        if f".{part}." in name:
            layer, kind = name.split(".")[1], name.rsplit(".", 1)[1]
            return state[f"blocks.{layer}.attn.qkv.{kind}"].chunk(3)[number]
    for theirs, timms in TIMM_NAMES.items():
        name = name.replace(theirs, timms)
    return state[name]


def test_mean_of_normed_tokens_is_not_the_norm_of_the_mean(
    tiny: ModuleType, tmp_path: Path
) -> None:
    directory = tiny.save_timm(tmp_path / "vit", "vit")
    plain, pixels = tiny.build_timm("vit"), random_pixels()
    ours = our_image_rows(str(directory), pixels, ["final"], "patch-mean", 16)[0]
    with torch.no_grad():
        before = plain.forward_intermediates(
            pixels, indices=[2], norm=False, output_fmt="NLC", intermediates_only=True
        )[0]
        norm_of_mean = plain.norm(before.mean(1))
    assert (ours - norm_of_mean).norm() / ours.norm() > 0.02


@pytest.mark.parametrize("kind", ["cait", "xcit", "convit"])
def test_blocks_that_hold_patches_alone_are_pooled_over_all_of_them(
    tiny: ModuleType, tmp_path: Path, kind: str
) -> None:
    directory = str(tiny.save_timm(tmp_path / kind, kind))
    plain, pixels = tiny.build_timm(kind), random_pixels()
    seen: dict[str, torch.Tensor] = {}
    plain.blocks[-2].register_forward_hook(lambda *a: seen.update(before=a[2].clone()))
    plain.blocks[-1].register_forward_hook(lambda *a: seen.update(last=a[2].clone()))
    plain.norm.register_forward_hook(lambda *a: seen.update(enters=a[1][0].clone()))
    with torch.no_grad():
        seen["final"] = plain.forward_features(pixels)
    patches, before = seen["final"].shape[1] - 1, seen["before"]
    assert before.shape[1] == patches
    for pool in ("patch-mean", "token"):
        (rows,) = our_image_rows(directory, pixels, ["-2"], pool, 16)
        torch.testing.assert_close(rows, pooled_patches(before, pool, 0), atol=1e-5, rtol=1e-5)
    last_prefix = seen["last"].shape[1] - patches
    rows = our_image_rows(directory, pixels, ["-1", "pre-norm", "final"], "patch-mean", 16)
    for ours, state, prefix in zip(
        rows, (seen["last"], seen["enters"], seen["final"]), (last_prefix, 1, 1), strict=True
    ):
        expected = pooled_patches(state, "patch-mean", prefix)
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    (token,) = our_image_rows(directory, pixels, ["pre-norm"], "cls", 16)
    torch.testing.assert_close(token, seen["enters"][:, 0], atol=1e-5, rtol=1e-5)
    with pytest.raises(InputError, match=r"'block-2' .*patches .*final"):
        our_image_rows(directory, pixels, ["-2"], "cls", 16)


@pytest.mark.parametrize(("name", "layer"), [("swin_t", "features.1"), ("resnet18", "layer2")])
def test_maps_are_read_the_way_they_lie(tmp_path: Path, name: str, layer: str) -> None:
    plain: Any = torchvision.models.get_model(name, weights=None, num_classes=4).eval()
    torch.save(plain.state_dict(), tmp_path / "w.pth")
    pixels, seen = random_pixels(2, side=64), dict[str, torch.Tensor]()
    plain.get_submodule(layer).register_forward_hook(lambda *a: seen.update(map=a[2].clone()))
    with torch.no_grad():
        plain(pixels)
    (rows,) = our_image_rows(f"torchvision:{name}@{tmp_path / 'w.pth'}", pixels, [layer], "avg", 2)
    # swin keeps its channels last
    expected = seen["map"].mean((1, 2) if name == "swin_t" else (2, 3))
    torch.testing.assert_close(rows, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("shape", "image", "expected"),
    [
        ((2, 5, 7, 7), (32, 32), (2, 49, 5)),
        ((2, 7, 7, 5), (32, 32), (2, 49, 5)),
        ((2, 5, 4, 8), (32, 64), (2, 32, 5)),
        ((2, 4, 8, 5), (32, 64), (2, 32, 5)),
        ((2, 7, 7, 7), (32, 32), (2, 49, 7)),
        ((2, 9, 1, 1), (32, 32), (2, 1, 9)),
    ],
)
def test_a_map_becomes_positions(
    shape: tuple[int, ...], image: tuple[int, int], expected: tuple[int, ...]
) -> None:
    hidden = torch.randn(shape)
    assert as_sequence(hidden, image).shape == expected
    with pytest.raises(InputError, match="sides"):
        as_sequence(torch.randn(2, 3, 17, 60), (32, 32))


def test_a_layer_whose_positions_are_no_patches_is_refused(
    tiny: ModuleType, tmp_path: Path
) -> None:
    directory = str(tiny.save_timm(tmp_path / "vit", "qk_norm"))
    with pytest.raises(InputError, match="sides"):
        our_image_rows(directory, random_pixels(), ["blocks.0.attn.q_norm"], "mean", 16)


def test_without_a_class_token_there_is_no_pooling_by_it(tiny: ModuleType, tmp_path: Path) -> None:
    for kind in ("registers", "siglip"):
        directory = str(tiny.save_timm(tmp_path / kind, kind))
        with pytest.raises(InputError, match=r"pooling 'cls' .*vit"):
            our_image_rows(directory, random_pixels(), ["final"], "cls", 16)


def test_images_of_a_size_that_a_model_cannot_take_are_one_line_for_every_library(
    tiny: ModuleType, tmp_path: Path
) -> None:
    torch.save(torchvision.models.alexnet(weights=None).state_dict(), tmp_path / "a.pth")
    tiny.save_other(tmp_path / "convnext", "convnext")
    swin = "swin_tiny_patch4_window7_224"
    arguments = {"depths": [1, 1], "embed_dim": 24, "num_heads": [1, 2], "img_size": 56}
    state = timm.create_model(swin, **arguments).state_dict()
    torch.save(state, tmp_path / "pytorch_model.bin")
    config = {"architecture": swin, "model_args": arguments}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for name, side, own in (
        (f"torchvision:alexnet@{tmp_path / 'a.pth'}", 16, 224),
        (str(tmp_path / "convnext"), 2, 32),
        (str(tmp_path), 32, 56),
    ):
        model = load_encoder(name)
        with pytest.raises(ModelError) as caught:
            probe_shapes(model, [model.layers.final], (side, side))
        said = str(caught.value)
        assert said.startswith(f"images of {side}×{side}: ")
        assert said.endswith(f"--preprocess canonical{own}")
        assert "\n" not in said
