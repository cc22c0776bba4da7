"""Image encoders of open_clip's checkpoints, built by timm, whose weights these are."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError
from repalign.models.checkpoints import (
    build_filled,
    check_depth,
    hash_files,
    mapping_in,
    read_json,
    read_state_dict,
    snapshot_commit,
    weight_files,
)
from repalign.models.encoder import Encoder, Origin
from repalign.models.inputs.images import ImageInputs, image_inputs_of_open_clip
from repalign.models.timm import build_architecture, convert_state, create_vit, describe

CONFIG = "open_clip_config.json"
_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
# Of open_clip's vision_cfg, what is built here; any other field has to say nothing.
_SHAPES = ("layers", "width", "head_width", "mlp_ratio", "patch_size", "image_size")
_TRUNK = ("timm_model_name", "timm_pool", "timm_proj", "timm_proj_bias", "image_size")
_TRAINING = ("patch_dropout", "timm_model_pretrained", "timm_drop", "timm_drop_path")
_NOTHING = (None, False, 0, 0.0, "tok", "learnable")


def load_directory(path: Path, name: str, revision: str | None, part: str | None) -> Encoder:
    """Load the image encoder of an open_clip directory, without the projection behind it.

    Raises InputError for the text encoder, ModelError for encoders of other kinds.
    """
    if part != "vision":
        raise InputError(
            f"{name} is of open_clip, whose image encoder is read: use {name}::vision; for its "
            "text encoder give the same model in transformers' format"
        )
    config = read_json(path / CONFIG)
    settings = mapping_in(config, "model_cfg", name)
    vision = mapping_in(settings, "vision_cfg", name)
    trunk = vision.get("timm_model_name")
    if not vision or not isinstance(trunk, str | None):
        raise ModelError(f"{name} has an {CONFIG} that describes no image encoder")
    for key, value in vision.items():
        fields = (*(_TRUNK if trunk else _SHAPES), *_TRAINING)
        if key not in fields and value not in _NOTHING and "timm" not in key:
            raise ModelError(
                f"the image encoder of {name} has {key} {value!r}, which is not supported; give "
                "the model in transformers' or timm's format"
            )
        check_depth(key, value, name)
    (weights, *_) = weight_files(path, name, _WEIGHTS)
    origin = Origin(
        f"{name}::vision",
        "open_clip",
        trunk or "VisionTransformer",
        hash_files([weights, path / CONFIG]),
        revision,
        snapshot_commit(path),
    )
    prepared = mapping_in(config, "preprocess_cfg", name)
    side = vision.get("image_size", 224)
    sides = (side, side) if isinstance(side, int) else tuple(side)
    inputs = partial(image_inputs_of_open_clip, prepared, origin.model, sides)
    state = {
        key: tensor for key, tensor in read_state_dict(weights).items() if key.startswith("visual.")
    }
    if trunk:
        return _load_trunk(origin, vision, state, sides, inputs)
    build = partial(_create_encoder, vision, name, quick=bool(settings.get("quick_gelu")))
    module = build_filled(build, _vit_state(state, build, name), origin.model)
    return describe(module, origin, {}, {"input_size": (3, *sides)}, image_inputs=inputs)


def _load_trunk(
    origin: Origin,
    vision: Mapping[str, Any],
    state: Mapping[str, Tensor],
    sides: tuple[int, ...],
    inputs: Callable[..., ImageInputs],
) -> Encoder:
    """Load an encoder that timm has under a name of its own."""
    prefix, pool = "visual.trunk.", vision.get("timm_pool", "avg")
    if not isinstance(pool, str | None):
        raise ModelError(f"the image encoder of {origin.model} has timm_pool {pool!r}; not a text")
    # a pooling of open_clip's own stands behind the trunk; an empty one is the trunk's
    arguments = {"global_pool": "" if pool.endswith("_attn") else pool} if pool else {}
    weights = {key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)}
    pretrained = {"input_size": [3, *sides]} if "image_size" in vision else {}
    return build_architecture(origin, weights, arguments, pretrained, inputs)


def _create_encoder(vision: Mapping[str, Any], name: str, *, quick: bool) -> nn.Module:
    layers, width = vision.get("layers", 12), vision.get("width", 768)
    head = vision.get("head_width", 64)
    if isinstance(layers, list):
        raise ModelError(f"the image encoder of {name} is a ResNet; give timm:resnet50_clip@file")
    for key, value in {"layers": layers, "width": width, "head_width": head}.items():
        if not isinstance(value, int) or value < 1:
            raise ModelError(f"the image encoder of {name} has {key} {value!r}; expected 1 or more")
    return create_vit(
        name,
        img_size=vision.get("image_size", 224),
        patch_size=vision.get("patch_size", 16),
        embed_dim=width,
        depth=layers,
        num_heads=width // head,
        mlp_ratio=vision.get("mlp_ratio", 4.0),
        pre_norm=True,
        norm_layer=partial(nn.LayerNorm, eps=1e-5),
        act_layer="quick_gelu" if quick else "gelu",
    )


def _vit_state(
    state: Mapping[str, Tensor], build: "partial[nn.Module]", name: str
) -> dict[str, Tensor]:
    """Rename weights by timm's filter, without the projection behind the states that are taken."""
    if not state:
        raise ModelError(f"{name} holds no weights of an image encoder (visual.…)")
    with torch.device("meta"):
        outline = build()
    renamed = convert_state(dict(state), outline, "vit_base_patch16_clip_224")
    return {key: tensor for key, tensor in renamed.items() if not key.startswith("head.")}
