"""Preparing images: equal to timm's and transformers' own, and refusals in one line."""

import json
from dataclasses import replace
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
from repalign.models.inputs.choice import choose_preprocess
from repalign.models.inputs.images import (
    ImagePreprocess,
    parse_preprocess,
    preprocess_of_timm,
    preprocess_of_transformers,
)
from repalign.models.loaders.load import load_model

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
    ours = preprocess_of_timm(config, "x")(image)
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
    image = noise_image(*size)
    ours = preprocess_of_transformers({**config, "image_processor_type": kind}, "x")
    made = {}
    for backend, name in (("pil", f"{kind}Pil"), ("torchvision", kind)):
        theirs = getattr(transformers, name)(**config)
        assert theirs.backend == backend
        made[backend] = np.asarray(theirs(image, return_tensors="np")["pixel_values"][0])
        again = replace(ours, backend=backend)(image)
        np.testing.assert_allclose(again, made[backend], atol=1e-5)
    if size == (375, 500):
        assert np.abs(made["pil"] - made["torchvision"]).max() > 0.01, "the choice matters"


def test_both_backends_take_one_channel_and_record_themselves() -> None:
    preprocess = parse_preprocess("canonical28", channels=1)
    assert preprocess is not None
    for backend in ("pil", "torchvision"):
        chosen = replace(preprocess, backend=backend)
        assert chosen(noise_image(60, 50, "L")).shape == (1, 28, 28)
        assert chosen.as_dict()["backend"] == backend


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_equals_the_transforms_of_torchvision(tiny: ModuleType, tmp_path: Path, name: str) -> None:
    weights = torchvision.models.get_model(name, num_classes=3).state_dict()
    torch.save(weights, tmp_path / "w.pth")
    model = load_model(f"torchvision:{name}@{tmp_path / 'w.pth'}")
    theirs = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    image = noise_image(375, 500)
    np.testing.assert_allclose(
        choose_preprocess(model)(image), np.asarray(theirs(image)), atol=1e-5
    )


def test_canonical_is_the_same_for_both_models_of_a_pair(tiny: ModuleType, tmp_path: Path) -> None:
    names = (
        tiny.save_timm(tmp_path / "a", "mae"),
        tiny.save_transformers(tmp_path / "b", "vit_mae"),
    )
    models = [load_model(str(name)) for name in names]
    own = [choose_preprocess(model) for model in models]
    forced = [choose_preprocess(model, "canonical32") for model in models]
    assert own[0] != own[1]
    assert forced[0] == forced[1]
    assert choose_preprocess(models[0], str(names[1])) == own[1]
    image = noise_image(50, 40)
    assert forced[0](image).shape == (3, 32, 32)
    assert forced[0](image).dtype == np.float32


def test_one_channel_models_get_one_channel() -> None:
    preprocess = parse_preprocess("canonical28", channels=1)
    assert preprocess is not None
    assert preprocess(noise_image(28, 28, "L")).shape == (1, 28, 28)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            "canonical64",
            r"gives 64×64 pixels, the model takes 32×32; for instance --preprocess canon",
        ),
        ("nonsense", "unknown preprocessing 'nonsense'; expected canonicalN"),
        ("timm:no_such_net_at_all", "timm has no preprocessing for 'no_such_net_at_all'"),
    ],
)
def test_a_preprocessing_that_does_not_fit_is_refused(
    tiny: ModuleType, tmp_path: Path, wanted: str, message: str
) -> None:
    model = load_model(str(tiny.save_timm(tmp_path / "vit", "vit")))
    with pytest.raises(InputError, match=message):
        choose_preprocess(model, wanted)


def test_a_model_without_preprocessing_needs_one(tiny: ModuleType, tmp_path: Path) -> None:
    directory = tiny.save_transformers(tmp_path / "vit", "vit")
    (directory / "preprocessor_config.json").unlink()
    model = load_model(str(directory))
    with pytest.raises(ModelError, match=r"without preprocessor_config.json; .*canonical32"):
        choose_preprocess(model)
    assert choose_preprocess(model, "canonical32").name == "canonical32"


@pytest.mark.parametrize("backend", ["pil", "torchvision"])
@pytest.mark.parametrize("size", [(1, 200_000), (200_000, 1), (1, 49_000_000), (40, 300_000)])
@pytest.mark.parametrize("resize", [256, (64, 64), (8000, 8000)])
def test_no_more_pixels_are_made_than_are_read(
    size: tuple[int, int], resize: int | tuple[int, int], backend: Any
) -> None:
    image = Image.new("L", size)
    preprocess = ImagePreprocess("x", resize, (32, 32), "bicubic", (0.5,), (0.5,), backend=backend)
    made = max(size[0], 64) * max(size[1], 64)
    if resize == (64, 64) and made <= MAX_PIXELS:
        assert preprocess(image).shape == (1, 32, 32)
        return
    with pytest.raises(InputError, match="pixels"):
        preprocess(image)


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
    model = load_model(str(directory))
    for wanted in (None, str(directory)):
        np.testing.assert_allclose(choose_preprocess(model, wanted)(image), expected, atol=1e-5)


def test_a_processor_without_a_name_or_model_type_is_refused() -> None:
    with pytest.raises(ModelError, match="not supported"):
        preprocess_of_transformers(UNNAMED, "x")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"image_processor_type": "MagicProcessor"}, "'MagicProcessor', which is not supported"),
        ({"image_processor_type": "ViTImageProcessor", "resample": 17}, "resample number 17"),
        ({"image_processor_type": "ViTImageProcessor", "do_rescale": False}, "does not scale"),
    ],
)
def test_an_unknown_processor_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        preprocess_of_transformers(config, "x")


def test_unknown_modes_of_timm_are_refused() -> None:
    with pytest.raises(ModelError, match="crops by mode 'border'"):
        preprocess_of_timm({"crop_mode": "border"}, "x")
    with pytest.raises(InputError, match="resizes by 'magic'"):
        preprocess_of_timm({"interpolation": "magic"}, "x")
