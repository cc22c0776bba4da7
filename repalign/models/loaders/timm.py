"""Image encoders of timm: by architecture, or from a directory as timm writes it."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError, reading
from repalign.files import file_sha256
from repalign.models.inputs.images import ImagePreprocess, image_size_in, preprocess_of_timm
from repalign.models.loaders.boundary import MODEL_ERRORS, running
from repalign.models.loaders.config_policy import check_sizes, mapping_in
from repalign.models.loaders.families import CNN, VIT, Family
from repalign.models.loaders.files import Checkpoint, read_json
from repalign.models.loaders.loaded import LoadedModel, Origin
from repalign.models.loaders.loader import Loader, refuse_part
from repalign.models.loaders.weights import (
    build_filled,
    is_head,
    read_state_dict,
)
from repalign.models.naming.hub import fetch_repository, snapshot_commit
from repalign.models.naming.spec import ModelSpec
from repalign.models.structure.images import read_blocks
from repalign.models.views.layers import FINAL, LayerMap, Tap, map_layers

_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.pth")


class TimmLoader(Loader):
    """Registered architectures of timm, and directories with its config.json."""

    def load(self, spec: ModelSpec) -> LoadedModel:
        """Load a registered architecture, from a weights file or from timm's hub.

        Raises InputError for an unknown architecture, ModelError for weights that do not fit.
        """
        import timm

        if not timm.is_model(spec.name):
            near = timm.list_models(f"*{spec.name.split('.')[0]}*")[:3]
            hint = f"did you mean {', '.join(near)}?" if near else "see timm.list_models()"
            raise InputError(f"unknown timm architecture {spec.name!r}; {hint}")
        if spec.path is not None:
            files = {spec.path.name: file_sha256(spec.path)}
            origin = Origin(f"timm:{spec.name}@{spec.path.name}", "timm", spec.name, files)
            return build_timm(origin, {}, read_state_dict(spec.path), spec.path.parent)
        pretrained = timm.get_pretrained_cfg(spec.name)
        repository = pretrained.hf_hub_id if pretrained is not None else None
        if not repository:
            raise ModelError(f"timm:{spec.name} has no published weights; give timm:name@file")
        return self.load_path(fetch_repository(repository, None), f"timm:{spec.name}")

    def claims(self, path: Path) -> bool:
        """Whether a directory has a config.json that names an architecture and no model type."""
        if not (path / "config.json").is_file():
            return False
        config = read_json(path / "config.json")
        return "model_type" not in config and "architecture" in config

    def load_path(
        self, path: Path, name: str, revision: str | None = None, part: str | None = None
    ) -> LoadedModel:
        """Load a directory with timm's config.json (``architecture``, ``model_args``).

        Raises ModelError when the config or the weights cannot be used.
        """
        refuse_part(name, part)
        config = read_json(path / "config.json")
        architecture = config.get("architecture")
        if not isinstance(architecture, str):
            raise ModelError(f"config.json of {name} names no timm architecture")
        checkpoint = Checkpoint(path, name, _WEIGHTS)
        state, files = checkpoint.read(), checkpoint.hashes(path / "config.json")
        licence = mapping_in(config, "pretrained_cfg", name).get("license")
        commit = snapshot_commit(path)
        origin = Origin(name, "timm", architecture, files, revision, commit, licence)
        return build_timm(origin, config, state, path)

    def own_preprocess(self, model: LoadedModel) -> ImagePreprocess:
        """Return timm's evaluation transform at the model's own size."""
        own: Any = model.config.get("pretrained_cfg")
        own = own or getattr(model.module, "pretrained_cfg", None) or {}
        config = dict(own) if isinstance(own, dict) else dict(vars(own))
        config["input_size"] = model.image_size
        return preprocess_of_timm(config, model.origin.model)

    def named_preprocess(self, spec: ModelSpec) -> ImagePreprocess:
        """Return the evaluation transform of a registered architecture.

        Raises InputError when timm has none.
        """
        import timm

        pretrained = timm.get_pretrained_cfg(spec.name)
        if pretrained is None:
            raise InputError(f"timm has no preprocessing for {spec.name!r}")
        return preprocess_of_timm(vars(pretrained), str(spec))

    def preprocess_in(self, directory: Path) -> ImagePreprocess:
        """Return the evaluation transform that a config.json describes."""
        config = read_json(directory / "config.json")
        return preprocess_of_timm(
            mapping_in(config, "pretrained_cfg", directory.name), directory.name
        )


LOADER = TimmLoader()


def build_timm(
    origin: Origin, config: Mapping[str, Any], state: dict[str, Tensor], directory: Path
) -> LoadedModel:
    """Build an architecture and load its weights.

    Raises ModelError when either does not fit the other.
    """
    import timm

    name, architecture = origin.model, origin.class_name
    if not timm.is_model(architecture):
        raise ModelError(f"{name} is of the timm architecture {architecture!r}, which is unknown")
    # RuntimeError of a tag behind the name that timm does not have
    with reading(name, RuntimeError, failure=ModelError, problem="is of no architecture of timm"):
        pretrained = timm.get_pretrained_cfg(architecture)
    classifier = getattr(pretrained, "classifier", None) or "head"
    if not isinstance(classifier, str):
        classifier = classifier[0]  # the main one of several heads
    head = state.get(f"{classifier}.weight")
    arguments = _model_arguments(config, name)
    arguments["num_classes"] = 0 if head is None or not head.ndim else head.shape[0]
    build = partial(_create, name, architecture, **arguments)
    module = build_filled(build, _without_heads(state, build), name)
    return finish_timm(module, origin, config, directory)


def _create(source: str, architecture: str, **arguments: Any) -> nn.Module:
    import timm

    with reading(source, *MODEL_ERRORS, failure=ModelError, problem="timm cannot build it"):
        module: nn.Module = timm.create_model(architecture, pretrained=False, **arguments)
    return module


def create_vit(source: str, **arguments: Any) -> nn.Module:
    """Build a ViT of timm.

    Raises ModelError for arguments that it does not take.
    """
    from timm.models.vision_transformer import VisionTransformer

    with reading(source, *MODEL_ERRORS, failure=ModelError, problem="timm cannot build it"):
        module: nn.Module = VisionTransformer(**arguments)
    return module


def _without_heads(state: dict[str, Tensor], build: "partial[Any]") -> dict[str, Tensor]:
    """Leave out weights that the architecture has when it is built with all of its heads."""
    with torch.device("meta"):
        unknown = {key for key in state.keys() - build().state_dict().keys() if not is_head(key)}
        if unknown:
            unknown &= build(num_classes=10).state_dict().keys()
    return {key: tensor for key, tensor in state.items() if key not in unknown}


def _model_arguments(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    arguments = mapping_in(config, "model_args", name)
    check_sizes(arguments, name)
    for key in ("num_classes", "pretrained", "checkpoint_path"):
        arguments.pop(key, None)
    for key, value in arguments.items():
        plain = value if isinstance(value, list) else [value]
        if not all(v is None or isinstance(v, bool | int | float | str) for v in plain):
            raise ModelError(f"model_args of {name} has {key!r} of a kind that is refused")
    if config.get("global_pool") and "global_pool" not in arguments:
        arguments["global_pool"] = config["global_pool"]
    return arguments


def finish_timm(
    module: Any,
    origin: Origin,
    config: Mapping[str, Any],
    directory: Path | None = None,
    *,
    vit: Family = VIT,
) -> LoadedModel:
    """Describe a module of timm; ``vit`` is its family if it has blocks of tokens."""
    module = module.float().eval()
    is_vit = hasattr(module, "blocks") and getattr(module, "num_prefix_tokens", None) is not None
    size = _image_size(module, config, origin.model)
    family = vit if is_vit else CNN
    if is_vit and getattr(module, "cls_token", None) is None:
        # registers may stand there, or the first patch
        family = replace(family, pools=tuple(pool for pool in family.pools if pool != "cls"))
    return LoadedModel(
        module=module,
        family=family,
        layers=_layers(module, size, origin.model, is_vit=is_vit),
        origin=origin,
        call=_call_timm,
        prefix_tokens=module.num_prefix_tokens if is_vit else 0,
        channels_last=getattr(module, "output_fmt", "NCHW") == "NHWC",
        image_size=size,
        config=config,
        directory=directory,
    )


def _call_timm(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
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
    stages = read_blocks(module, _call_timm, size, named)
    return map_layers(module, stages, final=Tap(FINAL, "", "returned"))


def _image_size(module: Any, config: Mapping[str, Any], name: str) -> tuple[int, int, int]:
    embedding = getattr(module, "patch_embed", None)
    pretrained = mapping_in(config, "pretrained_cfg", name)
    pretrained = pretrained or dict(getattr(module, "pretrained_cfg", None) or {})
    channels, height, width = image_size_in(pretrained, name)
    input_channels = mapping_in(config, "model_args", name).get("in_chans")
    first = next((part for part in module.modules() if isinstance(part, nn.Conv2d)), None)
    projection = getattr(embedding, "proj", None)
    if isinstance(input_channels, int):
        channels = input_channels
    elif isinstance(projection, nn.Conv2d) and projection is first:
        channels = projection.in_channels  # others may have made more channels of the image before
    if embedding is not None and getattr(embedding, "img_size", None):
        height, width = embedding.img_size
    return channels, height, width
