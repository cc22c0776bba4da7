"""Image encoders that timm builds: by name, from its directories, and original MAEs."""

import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError, reading
from repalign.models.checkpoints import (
    build_filled,
    check_depth,
    fetch_repository,
    hash_files,
    is_head,
    mapping_in,
    read_json,
    read_state_dict,
    snapshot_commit,
    weight_files,
)
from repalign.models.encoder import (
    FINAL,
    MODEL_ERRORS,
    Encoder,
    LayerMap,
    Origin,
    Tap,
    map_layers,
    running,
)
from repalign.models.families import CNN, VIT, VIT_MAE
from repalign.models.inputs.images import (
    ImageBackend,
    ImageInputs,
    image_inputs_of_timm,
)
from repalign.models.names import ModelName
from repalign.models.trace import image_blocks, without_class_token

_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.pth")
# Heads per width of the ViTs that MAE was trained as; the checkpoint does not say.
_MAE_HEADS = {192: 3, 384: 6, 768: 12, 1024: 16, 1280: 16}
_MAE_KEYS = {"cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.norm1.weight"}


def load_architecture(name: ModelName) -> Encoder:
    """Load a registered architecture, from a weights file or from timm's hub.

    Raises InputError for an unknown architecture, ModelError for weights that do not fit.
    """
    import timm

    if not timm.is_model(name.name):
        near = timm.list_models(f"*{name.name.split('.')[0]}*")[:3]
        hint = f"did you mean {', '.join(near)}?" if near else "see timm.list_models()"
        raise InputError(f"unknown timm architecture {name.name!r}; {hint}")
    if name.path is not None:
        origin = Origin(
            f"timm:{name.name}@{name.path.name}", "timm", name.name, hash_files([name.path])
        )
        return build_architecture(origin, read_state_dict(name.path), {}, {})
    pretrained = _pretrained_config(name.name, f"timm:{name.name}")
    if not pretrained.get("hf_hub_id"):
        raise ModelError(f"timm:{name.name} has no published weights; give timm:name@file")
    directory = fetch_repository(pretrained["hf_hub_id"], None)
    return load_directory(directory, read_json(directory / "config.json"), f"timm:{name.name}")


def load_directory(
    path: Path, config: Mapping[str, Any], name: str, revision: str | None = None
) -> Encoder:
    """Load a directory with timm's config.json (``architecture``, ``model_args``).

    Raises ModelError when the config or the weights cannot be used.
    """
    architecture = config.get("architecture")
    if not isinstance(architecture, str):
        raise ModelError(f"config.json of {name} names no timm architecture")
    pretrained = mapping_in(config, "pretrained_cfg", name)
    (weights, *_) = weight_files(path, name, _WEIGHTS)
    origin = Origin(
        name,
        "timm",
        architecture,
        hash_files([weights, path / "config.json"]),
        revision,
        snapshot_commit(path),
        pretrained.get("license"),
    )
    arguments = mapping_in(config, "model_args", name)
    if config.get("global_pool"):
        arguments.setdefault("global_pool", config["global_pool"])
    return build_architecture(origin, read_state_dict(weights), arguments, pretrained)


def image_inputs_named(architecture: str, name: str, backend: ImageBackend) -> ImageInputs:
    """Return the evaluation transform of a registered architecture.

    Raises InputError when timm has none.
    """
    config = _pretrained_config(architecture, name)
    if not config:
        raise InputError(f"timm has no preprocessing for {architecture!r}")
    return image_inputs_of_timm(config, name, backend)


def _pretrained_config(architecture: str, name: str) -> dict[str, Any]:
    import timm

    # RuntimeError of a tag behind the name that timm does not have
    with reading(name, RuntimeError, failure=ModelError, problem="is of no architecture of timm"):
        config = timm.get_pretrained_cfg(architecture)
    return {} if config is None else dict(vars(config))


def build_architecture(
    origin: Origin,
    state: dict[str, Tensor],
    arguments: dict[str, Any],
    pretrained: Mapping[str, Any],
    image_inputs: Callable[..., ImageInputs] | None = None,
) -> Encoder:
    """Build an architecture and load its weights, converted by timm's own filter.

    Raises ModelError when either does not fit the other.
    """
    import timm

    name, architecture = origin.model, origin.class_name
    if not timm.is_model(architecture):
        raise ModelError(f"{name} is of the timm architecture {architecture!r}, which is unknown")
    classifier = _pretrained_config(architecture, name).get("classifier") or "head"
    if not isinstance(classifier, str):
        classifier = classifier[0]  # the main one of several heads
    head = state.get(f"{classifier}.weight")
    options = _check_arguments(arguments, name)
    options["num_classes"] = 0 if head is None or not head.ndim else head.shape[0]
    build = partial(_create, name, architecture, **options)
    module = build_filled(build, _fit_state(state, build, architecture), name)
    return describe(module, origin, options, pretrained, image_inputs=image_inputs)


def _create(source: str, architecture: str, **arguments: Any) -> nn.Module:
    import timm

    with reading(source, *MODEL_ERRORS, failure=ModelError, problem="timm cannot build it"):
        module: nn.Module = timm.create_model(architecture, pretrained=False, **arguments)
    return module


def create_vit(source: str, **arguments: Any) -> nn.Module:
    """Build a vision transformer without a head.

    Raises ModelError for arguments that it does not take.
    """
    from timm.models.vision_transformer import VisionTransformer

    with reading(source, *MODEL_ERRORS, failure=ModelError, problem="timm cannot build it"):
        module: nn.Module = VisionTransformer(**arguments, num_classes=0, global_pool="token")
    return module


def _check_arguments(arguments: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the arguments of a config that an architecture may be built with."""
    for key, value in arguments.items():
        plain = value if isinstance(value, list) else [value]
        if not all(v is None or isinstance(v, bool | int | float | str) for v in plain):
            raise ModelError(f"model_args of {name} has {key!r} of a kind that is refused")
        check_depth(key, value, name)
    refused = ("num_classes", "pretrained", "checkpoint_path")
    return {key: value for key, value in arguments.items() if key not in refused}


def _fit_state(
    state: dict[str, Tensor], build: "partial[nn.Module]", architecture: str
) -> dict[str, Tensor]:
    """Leave out weights of heads that the whole architecture has."""
    with torch.device("meta"):
        expected = build().state_dict().keys()
        if not expected & state.keys():
            state = convert_state(state, build(), architecture)
        unknown = {key for key in state.keys() - expected if not is_head(key)}
        if unknown:
            unknown &= build(num_classes=10).state_dict().keys()
    return {key: tensor for key, tensor in state.items() if key not in unknown}


def convert_state(
    state: dict[str, Tensor], outline: nn.Module, architecture: str
) -> dict[str, Tensor]:
    """Convert weights under the names of their authors by timm's filter for an architecture.

    Raises ModelError where it would fit the positions of another size of images.
    """
    import timm

    entry = timm.models.model_entrypoint(architecture)
    convert: Any = getattr(sys.modules[entry.__module__], "checkpoint_filter_fn", None)
    if convert is None:
        return state
    with reading(architecture, *MODEL_ERRORS, failure=ModelError, problem="does not fit"):
        converted: dict[str, Tensor] = dict(convert(state, outline))
    positions = converted.get("pos_embed")
    if positions is not None and positions.numel() not in {v.numel() for v in state.values()}:
        raise ModelError(
            f"{architecture} has weights of another shape: pos_embed is made for images of "
            "another size"
        )
    return converted


def describe(
    module: Any,
    origin: Origin,
    arguments: Mapping[str, Any],
    pretrained: Mapping[str, Any],
    *,
    is_mae: bool = False,
    image_inputs: Callable[..., ImageInputs] | None = None,
) -> Encoder:
    """Describe a module of timm.

    ``pretrained`` is its pretrained_cfg, by default that of the module; ``image_inputs`` makes
    another preparation from the size of images.
    """
    name = origin.model
    data = dict(pretrained or getattr(module, "pretrained_cfg", None) or {})
    size = _image_size(module, arguments, data, name)
    is_vit = hasattr(module, "blocks") and getattr(module, "num_prefix_tokens", None) is not None
    family = (VIT_MAE if is_mae else VIT) if is_vit else CNN
    if is_vit and getattr(module, "cls_token", None) is None:
        family = without_class_token(family)  # registers may stand there, or the first patch
    inputs = image_inputs or partial(image_inputs_of_timm, {**data, "input_size": size}, name)
    return Encoder(
        module=module,
        origin=origin,
        family=family,
        layers=_layers(module, size, name, is_vit=is_vit),
        forward=_forward,
        prefix_tokens=module.num_prefix_tokens if is_vit else 0,
        channels_last=getattr(module, "output_fmt", "NCHW") == "NHWC",
        image_size=size,
        image_inputs=inputs,
    )


def _forward(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    with running(module):
        features: Tensor = module.forward_features(inputs["pixel_values"])  # type: ignore[operator]
        try:
            return module.forward_head(features, pre_logits=True)  # type: ignore[operator]
        except NotImplementedError:
            return features  # an encoder that was made for no classification


def _layers(module: Any, size: tuple[int, int, int], name: str, *, is_vit: bool) -> LayerMap:
    if is_vit:
        if not len(module.blocks):
            raise ModelError(f"{name} has no blocks; expected an encoder")
        return map_layers(module, [f"blocks.{k}" for k in range(len(module.blocks))])
    # the names are out of date for some, and of modules that do not run for others
    named = [info["module"] for info in getattr(module, "feature_info", ())]
    stages = image_blocks(module, _forward, size, named)
    return map_layers(module, stages, final=Tap(FINAL, "", "returned"))


def _image_size(
    module: Any, arguments: Mapping[str, Any], pretrained: Mapping[str, Any], name: str
) -> tuple[int, int, int]:
    sizes = pretrained.get("input_size") or (3, 224, 224)
    is_triple = isinstance(sizes, list | tuple) and len(sizes) == 3
    if not is_triple or not all(type(side) is int and side > 0 for side in sizes):
        raise ModelError(f"{name} takes images of {sizes!r}; expected channels, height and width")
    channels, height, width = sizes
    embedding = getattr(module, "patch_embed", None)
    projection = getattr(embedding, "proj", None)
    first = next((part for part in module.modules() if isinstance(part, nn.Conv2d)), None)
    if isinstance(arguments.get("in_chans"), int):
        channels = arguments["in_chans"]
    elif isinstance(projection, nn.Conv2d) and projection is first:
        channels = projection.in_channels  # others may have made more channels of the image before
    if embedding is not None and getattr(embedding, "img_size", None):
        height, width = embedding.img_size
    return channels, height, width


def is_mae_file(path: Path) -> bool:
    """Return whether a file holds an original MAE encoder."""
    return read_state_dict(path).keys() >= _MAE_KEYS


def load_mae(path: Path, name: str) -> Encoder:
    """Load the encoder of an original MAE checkpoint; its decoder is left out.

    Raises ModelError when the file is not a ViT encoder or lacks weights.
    """
    state = {
        key: tensor
        for key, tensor in read_state_dict(path).items()
        if not key.startswith("decoder_") and key != "mask_token"
    }
    build = partial(create_vit, path.name, **_mae_arguments(state, path.name))
    module = build_filled(build, state, path.name)
    origin = Origin(name, "mae", "VisionTransformer", hash_files([path]))
    return describe(module, origin, {}, {"mean": None}, is_mae=True)


def _mae_arguments(state: Mapping[str, Tensor], name: str) -> dict[str, Any]:
    if not state.keys() >= _MAE_KEYS:
        raise ModelError(
            f"{name} is not an MAE encoder (no patch_embed, pos_embed or blocks); for another "
            "architecture give timm:name@file or torchvision:name@file"
        )
    hidden = state.get("blocks.0.mlp.fc1.weight")
    shapes = state["patch_embed.proj.weight"].ndim, state["pos_embed"].ndim
    if shapes != (4, 3) or hidden is None or not hidden.ndim:
        raise ModelError(f"{name} has weights of other shapes than an MAE encoder; is it damaged?")
    width, channels, patch, _ = state["patch_embed.proj.weight"].shape
    if width not in _MAE_HEADS:
        widths = ", ".join(map(str, _MAE_HEADS))
        raise ModelError(
            f"{name} is {width} wide, and the number of its attention heads is not in the file; "
            f"known widths: {widths}; use timm:architecture@{name} instead"
        )
    return {
        "img_size": math.isqrt(max(0, state["pos_embed"].shape[1] - 1)) * patch,
        "patch_size": patch,
        "in_chans": channels,
        "embed_dim": width,
        "depth": len({key.split(".")[1] for key in state if key.startswith("blocks.")}),
        "num_heads": _MAE_HEADS[width],
        "mlp_ratio": hidden.shape[0] / width,
    }
