"""Image encoders of timm: by architecture, from a directory, and original MAE checkpoints."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError
from repalign.models.loaders.boundary import third_party
from repalign.models.loaders.config_policy import check_size_of, check_sizes
from repalign.models.loaders.families import CNN, VIT, VIT_MAE
from repalign.models.loaders.files import Checkpoint, read_json
from repalign.models.loaders.loaded import LoadedModel, Origin
from repalign.models.loaders.weights import file_sha256, load_strictly, read_state_dict
from repalign.models.naming.hub import fetch_repository, snapshot_commit
from repalign.models.views.layers import FINAL, LayerMap, Tap, map_layers

# Heads per width of the ViTs that MAE was trained as; the checkpoint does not say.
_MAE_HEADS = {192: 3, 384: 6, 768: 12, 1024: 16, 1280: 16}
_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.pth")


def load_timm(architecture: str, weights: Path | None = None) -> LoadedModel:
    """Load a timm model by its registered name, from a weights file or from timm's hub.

    Raises InputError for an unknown architecture, ModelError for weights that do not fit.
    """
    import timm

    if not timm.is_model(architecture):
        near = timm.list_models(f"*{architecture.split('.')[0]}*")[:3]
        hint = f"did you mean {', '.join(near)}?" if near else "see timm.list_models()"
        raise InputError(f"unknown timm architecture {architecture!r}; {hint}")
    if weights is not None:
        files = {weights.name: file_sha256(weights)}
        origin = Origin(f"timm:{architecture}@{weights.name}", "timm", architecture, files)
        size = weights.stat().st_size
        return _build(origin, {}, read_state_dict(weights), size, weights.parent)
    pretrained = timm.get_pretrained_cfg(architecture)
    repository = pretrained.hf_hub_id if pretrained is not None else None
    if not repository:
        raise ModelError(f"timm:{architecture} has no published weights; give timm:name@file")
    directory = fetch_repository(repository, None)
    return load_timm_directory(directory, f"timm:{architecture}")


def load_timm_directory(directory: Path, name: str, revision: str | None = None) -> LoadedModel:
    """Load a timm model saved with its config.json (``architecture``, ``model_args``).

    Raises ModelError when the config or the weights cannot be used.
    """
    config = read_json(directory / "config.json")
    architecture = config.get("architecture")
    if not isinstance(architecture, str):
        raise ModelError(f"config.json of {name} names no timm architecture")
    checkpoint = Checkpoint(directory, name, _WEIGHTS)
    state, files = checkpoint.read(), checkpoint.hashes(directory / "config.json")
    licence = dict(config.get("pretrained_cfg") or {}).get("license")
    origin = Origin(
        name, "timm", architecture, files, revision, snapshot_commit(directory), licence
    )
    return _build(origin, config, state, checkpoint.size, directory)


def load_mae(path: Path) -> LoadedModel:
    """Load the encoder of an original MAE checkpoint; its decoder is dropped.

    Raises ModelError when the file is no ViT encoder or lacks weights.
    """
    from timm.models.vision_transformer import VisionTransformer

    state = {k: v for k, v in read_state_dict(path).items() if not _is_decoder(k)}
    module = VisionTransformer(**_mae_shape(state, path.name), num_classes=0, global_pool="token")
    load_strictly(module, state, path.name)
    origin = Origin(f"mae:{path.name}", "mae", "VisionTransformer", {path.name: file_sha256(path)})
    return _finish(module, origin, {"mean": None})


def is_mae_state(state: Mapping[str, Tensor]) -> bool:
    """Whether tensors have the names of an original MAE encoder."""
    return {"cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.norm1.weight"} <= set(
        state
    )


def _is_decoder(key: str) -> bool:
    return key.startswith("decoder_") or key == "mask_token"


def _mae_shape(state: Mapping[str, Tensor], name: str) -> dict[str, Any]:
    if not is_mae_state(state):
        raise ModelError(
            f"{name} is no MAE encoder (no patch_embed, pos_embed or blocks); for another "
            "architecture give timm:name@file or torchvision:name@file"
        )
    width, channels, patch, _ = state["patch_embed.proj.weight"].shape
    if width not in _MAE_HEADS:
        known = ", ".join(str(w) for w in _MAE_HEADS)
        raise ModelError(
            f"{name} is {width} wide, and the number of its attention heads is not in the file; "
            f"known widths: {known}; use timm:architecture@{name} instead"
        )
    return {
        "img_size": math.isqrt(state["pos_embed"].shape[1] - 1) * patch,
        "patch_size": patch,
        "in_chans": channels,
        "embed_dim": width,
        "depth": len({k.split(".")[1] for k in state if k.startswith("blocks.")}),
        "num_heads": _MAE_HEADS[width],
        "mlp_ratio": state["blocks.0.mlp.fc1.weight"].shape[0] / width,
    }


def _build(
    origin: Origin,
    config: Mapping[str, Any],
    state: dict[str, Tensor],
    n_bytes: int,
    directory: Path,
) -> LoadedModel:
    import timm

    name, architecture = origin.model, origin.class_name
    if not timm.is_model(architecture):
        raise ModelError(f"{name} is of the timm architecture {architecture!r}, which is unknown")
    pretrained = timm.get_pretrained_cfg(architecture)
    classifier = getattr(pretrained, "classifier", None) or "head"
    head = state.get(f"{classifier}.weight")
    arguments = _model_arguments(config, name)
    arguments["num_classes"] = 0 if head is None else head.shape[0]
    with third_party(f"timm cannot build {name}"):
        if config:
            with torch.device("meta"):
                check_size_of(timm.create_model(architecture, **arguments), n_bytes, name)
        module = timm.create_model(architecture, pretrained=False, **arguments)
    load_strictly(module, state, name)
    return _finish(module, origin, config, directory)


def _model_arguments(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    check_sizes(config.get("model_args"), name)
    arguments = dict(config.get("model_args") or {})
    for key in ("num_classes", "pretrained", "checkpoint_path"):
        arguments.pop(key, None)
    for key, value in arguments.items():
        plain = value if isinstance(value, list) else [value]
        if not all(v is None or isinstance(v, bool | int | float | str) for v in plain):
            raise ModelError(f"model_args of {name} has {key!r} of a kind that is refused")
    if config.get("global_pool") and "global_pool" not in arguments:
        arguments["global_pool"] = config["global_pool"]
    return arguments


def _finish(
    module: Any, origin: Origin, config: Mapping[str, Any], directory: Path | None = None
) -> LoadedModel:
    module = module.float().eval()
    is_vit = hasattr(module, "blocks") and getattr(module, "num_prefix_tokens", None) is not None
    family = (VIT_MAE if origin.loader == "mae" else VIT) if is_vit else CNN
    if is_vit and getattr(module, "cls_token", None) is None:
        # registers may stand there, or the first patch
        family = replace(family, pools=tuple(pool for pool in family.pools if pool != "cls"))
    return LoadedModel(
        module=module,
        family=family,
        layers=_layers(module, is_vit=is_vit),
        origin=origin,
        call=_call_timm,
        prefix_tokens=module.num_prefix_tokens if is_vit else 0,
        channels_last=getattr(module, "output_fmt", "NCHW") == "NHWC",
        image_size=_image_size(module, config),
        config=config,
        directory=directory,
    )


def _call_timm(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    features = module.forward_features(inputs["pixel_values"])  # type: ignore[operator]
    return module.forward_head(features, pre_logits=True)  # type: ignore[operator]


def _layers(module: Any, *, is_vit: bool) -> LayerMap:
    if is_vit:
        return map_layers(module, [f"blocks.{k}" for k in range(len(module.blocks))])
    names = dict(module.named_modules())
    stages = [info["module"] for info in module.feature_info if info["module"] in names]
    return map_layers(module, stages, final=Tap(FINAL, "", "returned"))


def _image_size(module: Any, config: Mapping[str, Any]) -> tuple[int, int, int]:
    embedding = getattr(module, "patch_embed", None)
    pretrained = dict(config.get("pretrained_cfg") or getattr(module, "pretrained_cfg", {}) or {})
    channels, height, width = pretrained.get("input_size") or (3, 224, 224)
    first = next((p for p in module.modules() if isinstance(p, nn.Conv2d)), None)
    if first is not None:
        channels = first.in_channels
    if embedding is not None and getattr(embedding, "img_size", None):
        height, width = embedding.img_size
    return channels, height, width
