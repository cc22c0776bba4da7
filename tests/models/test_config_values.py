"""Values of a config that our own code takes are checked before they are used."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from repalign.exceptions import InputError, ModelError
from repalign.models.checkpoints import mapping_in
from repalign.models.inputs.images import (
    image_inputs_of_open_clip,
    image_inputs_of_timm,
    image_inputs_of_transformers,
)
from repalign.models.load import load_encoder

TIMM = {"input_size": [3, 32, 32], "crop_pct": 0.9, "mean": [0.5] * 3, "std": [0.5] * 3}
VIT = {"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}}
CLIP = {"image_processor_type": "CLIPImageProcessor", "size": 8, "do_center_crop": True}


@pytest.mark.parametrize(
    "change",
    [
        {"input_size": "x"},
        {"input_size": [3, 32]},
        {"input_size": [3, 32, -1]},
        {"input_size": [3, 10**6, 10**6]},
        {"crop_pct": "x"},
        {"crop_pct": -1},
        {"crop_pct": float("nan")},
        {"mean": {"a": 1}},
        {"std": [None, 1, 1]},
        {"interpolation": ["x"]},
    ],
    ids=str,
)
def test_the_preprocessing_of_timm(change: dict[str, Any]) -> None:
    image_inputs_of_timm(TIMM, "x")
    with pytest.raises((ModelError, InputError), match=r"^x|preprocessing x"):
        image_inputs_of_timm(TIMM | change, "x")


@pytest.mark.parametrize(
    ("config", "change"),
    [
        (VIT, {"resample": [1]}),
        (VIT, {"resample": 77}),
        (VIT, {"image_mean": "x"}),
        (CLIP, {"crop_size": {"height": "x", "width": 8}}),
        (CLIP, {"crop_size": 10**9}),
    ],
    ids=str,
)
def test_the_preprocessing_of_transformers(
    tmp_path: Path, config: dict[str, Any], change: dict[str, Any]
) -> None:
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps({**config, "crop_size": 8}))
    image_inputs_of_transformers(tmp_path, "x", (3, 32, 32))
    path.write_text(json.dumps({**config, **change}))
    with pytest.raises(ModelError, match="x"):
        image_inputs_of_transformers(tmp_path, "x", (3, 32, 32))


def test_the_preprocessing_of_open_clip() -> None:
    with pytest.raises(ModelError, match="mean"):
        image_inputs_of_open_clip({"mean": [[]]}, "x", (8, 8))


def test_an_object_of_a_config() -> None:
    assert mapping_in({}, "model_args", "x") == {}
    assert mapping_in({"model_args": {"a": 1}}, "model_args", "x") == {"a": 1}
    with pytest.raises(ModelError, match="model_args"):
        mapping_in({"model_args": ["a"]}, "model_args", "x")


@pytest.mark.parametrize(
    "config",
    [
        {"model_cfg": "x"},
        {"model_cfg": {}},
        {"model_cfg": {"vision_cfg": {"timm_model_name": 1}}},
        {"model_cfg": {"vision_cfg": {"layers": 0}}},
        {"model_cfg": {"vision_cfg": {"head_width": "x"}}},
        {"model_cfg": {"vision_cfg": {"layers": [2, 2]}}},
        {"model_cfg": {"vision_cfg": {"timm_model_name": "resnet18", "timm_pool": []}}},
        {"model_cfg": {"vision_cfg": {"timm_model_name": "resnet18", "image_size": [8]}}},
    ],
    ids=str,
)
def test_the_config_of_open_clip(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    weights = {"visual.conv1.weight": torch.zeros(8, 3, 16, 16)}
    save_file(weights, tmp_path / "open_clip_model.safetensors")
    with pytest.raises(ModelError):
        load_encoder(f"{tmp_path}::vision")


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("Dense", {"in_features": "x", "out_features": 8}),
        ("Dense", {"out_features": 8}),
        ("Dense", {"in_features": 8, "out_features": 8, "activation_function": ["x"]}),
        ("LayerNorm", {"dimension": 0}),
        ("Pooling", {"pooling_mode": 5}),
    ],
    ids=str,
)
def test_the_parts_of_sentence_transformers(
    tiny: ModuleType, tmp_path: Path, kind: str, config: dict[str, Any]
) -> None:
    directory = tiny.save_transformers(tmp_path / "bert", "bert")
    entries = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Part", kind)]
    modules = [{"path": path, "type": f"sentence_transformers.models.{k}"} for path, k in entries]
    (directory / "modules.json").write_text(json.dumps(modules))
    for folder, content in (("1_Pooling", {}), ("2_Part", config)):
        (directory / folder).mkdir()
        (directory / folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(ModelError):
        load_encoder(str(directory))
