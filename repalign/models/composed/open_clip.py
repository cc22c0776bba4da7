"""Image encoders of open_clip's checkpoints, built by timm, whose weights these are."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError
from repalign.models.inputs.images import ImagePreprocess, as_list, preprocess_of_open_clip
from repalign.models.loaders.config_policy import check_sizes, mapping_in
from repalign.models.loaders.files import Checkpoint, read_json
from repalign.models.loaders.loaded import LoadedModel, Origin
from repalign.models.loaders.loader import Loader
from repalign.models.loaders.timm import build_timm, create_vit, finish_timm
from repalign.models.loaders.weights import build_filled
from repalign.models.naming.hub import OPEN_CLIP_CONFIG, OPEN_CLIP_WEIGHTS, snapshot_commit

# Of a vision_cfg, what is built here; any other field has to say nothing.
_SHAPES = ("layers", "width", "head_width", "mlp_ratio", "patch_size", "image_size")
_TRUNK = ("timm_model_name", "timm_pool", "timm_proj", "timm_proj_bias", "image_size")
_TRAINING = ("patch_dropout", "timm_model_pretrained", "timm_drop", "timm_drop_path")
_NOTHING = (None, False, 0, 0.0, "tok", "learnable")


class OpenClipLoader(Loader):
    """Directories with an open_clip_config.json and no config.json of transformers."""

    def claims(self, path: Path) -> bool:
        """Whether a directory is in open_clip's format alone."""
        return (path / OPEN_CLIP_CONFIG).is_file() and not (path / "config.json").is_file()

    def load_path(
        self, path: Path, name: str, revision: str | None = None, part: str | None = None
    ) -> LoadedModel:
        """Load the image encoder, without the projection behind it.

        Raises InputError for the text encoder, ModelError for encoders of other kinds.
        """
        if part != "vision":
            raise InputError(
                f"{name} is of open_clip, whose image encoder is read: say {name}::vision; for its "
                "text encoder give the same model in transformers' format"
            )
        config = read_json(path / OPEN_CLIP_CONFIG)
        checkpoint = Checkpoint(path, name, OPEN_CLIP_WEIGHTS)
        files = checkpoint.hashes(path / OPEN_CLIP_CONFIG)
        state = {key.removeprefix("module."): value for key, value in checkpoint.read().items()}
        settings = mapping_in(config, "model_cfg", name)
        vision = mapping_in(settings, "vision_cfg", name)
        check_sizes(vision, name)
        trunk = vision.get("timm_model_name")
        if not vision or not isinstance(trunk, str | None):
            raise ModelError(f"{name} has an {OPEN_CLIP_CONFIG} that describes no image encoder")
        _check_fields(vision, _TRUNK if trunk else _SHAPES, name)
        made = f"{name}::vision"
        origin = Origin(made, "open_clip", trunk or "VisionTransformer", files, revision)
        origin = replace(origin, commit=snapshot_commit(path))
        if trunk:
            return _trunk(origin, config, vision, state, path)
        build = partial(_transformer, vision, name, quick=bool(settings.get("quick_gelu")))
        module = build_filled(build, _renamed(state, name), made)
        return finish_timm(module, origin, {"open_clip": config}, path)

    def own_preprocess(self, model: LoadedModel) -> ImagePreprocess:
        """Return open_clip's evaluation transform, as its config says it."""
        config: Any = model.config["open_clip"]
        assert model.image_size is not None
        return preprocess_of_open_clip(
            mapping_in(config, "preprocess_cfg", model.origin.model),
            model.image_size[1:],
            model.origin.model,
        )


LOADER = OpenClipLoader()


def _check_fields(vision: Mapping[str, Any], known: tuple[str, ...], name: str) -> None:
    for key, value in vision.items():
        if key not in (*known, *_TRAINING) and value not in _NOTHING and "timm" not in key:
            raise ModelError(
                f"the image encoder of {name} has {key} {value!r}, which is not supported; give "
                "the model in transformers' or timm's format"
            )


def _trunk(
    origin: Origin,
    config: dict[str, Any],
    vision: Mapping[str, Any],
    state: Mapping[str, Tensor],
    path: Path,
) -> LoadedModel:
    """An encoder that timm has under a name of its own."""
    prefix = "visual.trunk."
    pool = vision.get("timm_pool", "avg")
    if not isinstance(pool, str | None):
        raise ModelError(f"the image encoder of {origin.model} has timm_pool {pool!r}; not a text")
    # a pooling of open_clip's own stands behind the trunk; none said is the trunk's
    arguments = {"global_pool": "" if pool.endswith("_attn") else pool} if pool else {}
    own = {key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)}
    given: dict[str, Any] = {"open_clip": config, "model_args": arguments}
    side = vision.get("image_size")
    if side is not None:
        sides = (side, side) if isinstance(side, int) else as_list(side)
        given["pretrained_cfg"] = {"input_size": [3, *sides]}
    return build_timm(origin, given, own, path)


def _transformer(vision: Mapping[str, Any], name: str, *, quick: bool) -> nn.Module:
    layers, width = vision.get("layers", 12), vision.get("width", 768)
    head = vision.get("head_width", 64)
    if isinstance(layers, list):
        raise ModelError(f"the image encoder of {name} is a ResNet; give timm:resnet50_clip@file")
    sizes = {"layers": layers, "width": width, "head_width": head}
    for key, value in sizes.items():
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
        num_classes=0,
        global_pool="token",
    )


# From open_clip's names to timm's, in this order.
_NAMES = (
    ("conv1", "patch_embed.proj"),
    ("positional_embedding", "pos_embed"),
    ("class_embedding", "cls_token"),
    ("transformer.resblocks.", "blocks."),
    ("ln_pre", "norm_pre"),
    ("ln_post", "norm"),
    ("ln_", "norm"),
    ("in_proj_", "qkv."),
    ("out_proj", "proj"),
    ("mlp.c_fc", "mlp.fc1"),
    ("mlp.c_proj", "mlp.fc2"),
)


def _renamed(state: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    found = {}
    for key, tensor in state.items():
        # the projection stands behind the states that are taken
        if not key.startswith("visual.") or key == "visual.proj":
            continue
        target = key.removeprefix("visual.")
        for theirs, ours in _NAMES:
            target = target.replace(theirs, ours)
        if target in ("pos_embed", "cls_token") and tensor.ndim:
            tensor = tensor.reshape(1, -1, tensor.shape[-1])
        found[target] = tensor
    if not found:
        raise ModelError(f"{name} holds no weights of an image encoder (visual.…)")
    return found
