"""Preparing images: equal to timm's and transformers' own, and refusals in one line."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import timm.data
import torch
import torchvision
import transformers
from PIL import Image

from repalign.exceptions import InputError, ModelError
from repalign.limits import MAX_PIXELS
from repalign.models.inputs.images import (
    image_inputs_of_timm,
    image_inputs_of_transformers,
    parse_canonical,
)
from repalign.models.load import choose_image_inputs, load_encoder

SIZES = [(375, 500), (500, 375), (224, 224), (31, 77), (1000, 301)]


def noise_image(height: int, width: int, mode: str = "RGB") -> Image.Image:
    rng = np.random.default_rng(height * 1000 + width)
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    return Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("crop_pct", [0.875, 0.9, 1.0])
def test_equals_the_evaluation_transform_of_timm(size: tuple[int, int], crop_pct: float) -> None:
    config = {
        "input_size": (3, 224, 224),
        "interpolation": "bicubic",
        "crop_pct": crop_pct,
        "crop_mode": "center",
        "mean": (0.485, 0.456, 0.406),
        "std": (0.229, 0.224, 0.225),
    }
    theirs = timm.data.create_transform(**config, is_training=False)
    image = noise_image(*size)
    ours = image_inputs_of_timm(config, "x")(image)
    np.testing.assert_allclose(ours, np.asarray(theirs(image)), atol=1e-5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("ViTImageProcessor", {"size": {"height": 224, "width": 224}, "resample": 2}),
        ("ViTImageProcessor", {"size": {"height": 96, "width": 64}, "resample": 3}),
        (
            "ConvNextImageProcessor",
            {"size": {"shortest_edge": 224}, "crop_pct": 0.875, "resample": 3},
        ),
        (
            "ConvNextImageProcessor",
            {"size": {"shortest_edge": 384}, "crop_pct": 0.875, "resample": 2},
        ),
        # as old checkpoints say it: a side for some, the shorter edge for others
        ("DeiTImageProcessor", {"size": 96, "do_center_crop": False, "resample": 3}),
        ("CLIPImageProcessor", {"size": 96, "crop_size": 64, "do_center_crop": True}),
        ("SiglipImageProcessor", {"size": {"height": 96, "width": 96}, "resample": 3}),
        (
            "CLIPImageProcessor",
            {
                "size": {"shortest_edge": 224},
                "crop_size": {"height": 224, "width": 224},
                "do_center_crop": True,
                "resample": 3,
            },
        ),
        (
            "BeitImageProcessor",
            {
                "size": {"height": 256, "width": 256},
                "crop_size": {"height": 224, "width": 224},
                "do_center_crop": True,
                "resample": 3,
            },
        ),
        (
            "BitImageProcessor",
            {
                "size": {"shortest_edge": 256},
                "crop_size": {"height": 224, "width": 224},
                "do_center_crop": True,
                "resample": 3,
            },
        ),
    ],
)
def test_equals_the_image_processors_of_transformers(
    tmp_path: Path, size: tuple[int, int], kind: str, settings: dict[str, Any]
) -> None:
    config = {**settings, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
    text = json.dumps({**config, "image_processor_type": kind})
    (tmp_path / "preprocessor_config.json").write_text(text)
    image = noise_image(*size)
    pixels = {}
    for backend, name in (("pil", f"{kind}Pil"), ("torchvision", kind)):
        theirs = getattr(transformers, name)(**config)
        assert theirs.backend == backend
        pixels[backend] = np.asarray(theirs(image, return_tensors="np")["pixel_values"][0])
        ours = image_inputs_of_transformers(tmp_path, "x", (3, 32, 32), backend)(image)
        np.testing.assert_allclose(ours, pixels[backend], atol=1e-5)
    if size == (375, 500):
        assert np.abs(pixels["pil"] - pixels["torchvision"]).max() > 0.01, "the choice matters"


def test_both_backends_take_one_channel_and_record_themselves() -> None:
    for backend in ("pil", "torchvision"):
        inputs = parse_canonical("canonical28", 1, backend)
        assert inputs is not None
        assert inputs(noise_image(60, 50, "L")).shape == (1, 28, 28)
        assert inputs.as_dict()["backend"] == backend


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_equals_the_transforms_of_torchvision(tiny: ModuleType, tmp_path: Path, name: str) -> None:
    weights = torchvision.models.get_model(name, num_classes=3).state_dict()
    torch.save(weights, tmp_path / "w.pth")
    model = load_encoder(f"torchvision:{name}@{tmp_path / 'w.pth'}")
    theirs = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    image = noise_image(375, 500)
    np.testing.assert_allclose(
        choose_image_inputs(model)(image), np.asarray(theirs(image)), atol=1e-5
    )


def test_canonical_is_the_same_for_both_models_of_a_pair(tiny: ModuleType, tmp_path: Path) -> None:
    names = (
        tiny.save_timm(tmp_path / "a", "mae"),
        tiny.save_transformers(tmp_path / "b", "vit_mae"),
    )
    models = [load_encoder(str(name)) for name in names]
    own = [choose_image_inputs(model).as_dict() for model in models]
    forced = [choose_image_inputs(model, "canonical32") for model in models]
    assert own[0] != own[1]
    assert forced[0].as_dict() == forced[1].as_dict()
    named = choose_image_inputs(models[0], str(names[1])).as_dict()
    assert named | {"name": ""} == own[1] | {"name": ""}
    image = noise_image(50, 40)
    assert forced[0](image).shape == (3, 32, 32)
    assert forced[0](image).dtype == np.float32


def test_one_channel_models_get_one_channel() -> None:
    inputs = parse_canonical("canonical28", channels=1)
    assert inputs is not None
    assert inputs(noise_image(28, 28, "L")).shape == (1, 28, 28)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            "canonical64",
            r"64×64 .*32×32; .*canonical32",
        ),
        ("nonsense", "preprocessing 'nonsense'"),
        ("timm:no_such_net_at_all", "preprocessing .*'no_such_net_at_all'"),
    ],
)
def test_a_preprocessing_that_does_not_fit_is_refused(
    tiny: ModuleType, tmp_path: Path, wanted: str, message: str
) -> None:
    model = load_encoder(str(tiny.save_timm(tmp_path / "vit", "vit")))
    with pytest.raises(InputError, match=message):
        choose_image_inputs(model, wanted)


def test_a_model_without_preprocessing_needs_one(tiny: ModuleType, tmp_path: Path) -> None:
    directory = tiny.save_transformers(tmp_path / "vit", "vit")
    (directory / "preprocessor_config.json").unlink()
    model = load_encoder(str(directory))
    with pytest.raises(ModelError, match=r"preprocessor_config.json; .*canonical32"):
        choose_image_inputs(model)
    assert choose_image_inputs(model, "canonical32").name == "canonical32"


@pytest.mark.parametrize("backend", ["pil", "torchvision"])
@pytest.mark.parametrize("size", [(1, 200_000), (200_000, 1), (1, 49_000_000), (40, 300_000)])
@pytest.mark.parametrize(("mode", "side"), [("center", 256), ("squash", 64), ("squash", 8000)])
def test_no_more_pixels_are_made_than_are_read(
    size: tuple[int, int], mode: str, side: int, backend: Any
) -> None:
    image = Image.new("L", size)
    config = {"input_size": (1, side, side), "crop_mode": mode, "crop_pct": 1.0}
    inputs = image_inputs_of_timm(config, "x", backend)
    pixels = max(size[0], side) * max(size[1], side)
    if mode == "squash" and pixels <= MAX_PIXELS:
        assert inputs(image).shape == (1, side, side)
        return
    with pytest.raises(InputError, match="pixels"):
        inputs(image)


# As of facebook/vit-mae-base: an old file, which does not name its processor.
UNNAMED = {
    "_processor_class": None,
    "do_normalize": True,
    "do_resize": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "resample": 2,
    "size": 32,
}


@pytest.mark.parametrize("model_type", ["vit_mae", "vit", "resnet"])
def test_a_processor_without_a_name_is_that_of_the_model_type(
    tiny: ModuleType, tmp_path: Path, model_type: str
) -> None:
    directory = tiny.save_transformers(tmp_path / model_type, model_type)
    (directory / "preprocessor_config.json").write_text(json.dumps(UNNAMED))
    theirs = transformers.AutoImageProcessor.from_pretrained(directory, backend="pil")
    image = noise_image(50, 80)
    expected = np.asarray(theirs(image, return_tensors="np")["pixel_values"][0])
    model = load_encoder(str(directory))
    for wanted in (None, str(directory)):
        np.testing.assert_allclose(choose_image_inputs(model, wanted)(image), expected, atol=1e-5)


def test_a_processor_without_a_name_or_model_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(UNNAMED))
    with pytest.raises(ModelError, match="not supported"):
        image_inputs_of_transformers(tmp_path, "x", (3, 32, 32))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"image_processor_type": "MagicProcessor"}, "not supported"),
        ({"image_processor_type": "ViTImageProcessor", "resample": 17}, "not supported"),
        ({"image_processor_type": "ViTImageProcessor", "do_rescale": False}, "not scale"),
        ({"image_processor_type": "ViTImageProcessor", "do_resize": False}, "two sizes"),
        ({"auto_map": {"AutoImageProcessor": "x.Y"}}, "code"),
    ],
)
def test_an_unknown_processor_is_refused(
    tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=message):
        image_inputs_of_transformers(tmp_path, "x", (3, 32, 32))
