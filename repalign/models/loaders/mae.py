"""Original MAE checkpoints: the encoder, built by timm; its decoder is dropped."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from repalign.exceptions import ModelError
from repalign.files import file_sha256
from repalign.models.inputs.images import ImagePreprocess
from repalign.models.loaders.families import VIT_MAE
from repalign.models.loaders.loaded import LoadedModel, Origin
from repalign.models.loaders.loader import Loader, refuse_part
from repalign.models.loaders.timm import LOADER as TIMM
from repalign.models.loaders.timm import create_vit, finish_timm
from repalign.models.loaders.weights import build_filled, read_state_dict
from repalign.models.naming.spec import ModelSpec

# Heads per width of the ViTs that MAE was trained as; the checkpoint does not say.
_MAE_HEADS = {192: 3, 384: 6, 768: 12, 1024: 16, 1280: 16}


class MaeLoader(Loader):
    """Weights files whose names of weights are those of an original MAE."""

    def load(self, spec: ModelSpec) -> LoadedModel:
        """Load the encoder of a file.

        Raises ModelError when the file is no ViT encoder or lacks weights.
        """
        assert spec.path is not None
        return self.load_path(spec.path, f"mae:{spec.path.name}")

    def claims(self, path: Path) -> bool:
        """Whether a file holds an original MAE encoder."""
        return path.is_file() and _is_mae_state(read_state_dict(path))

    def load_path(
        self, path: Path, name: str, revision: str | None = None, part: str | None = None
    ) -> LoadedModel:
        """Load the encoder of a file.

        Raises ModelError when the file is no ViT encoder or lacks weights.
        """
        refuse_part(name, part)
        state = {k: v for k, v in read_state_dict(path).items() if not _is_decoder(k)}
        shape = _mae_shape(state, path.name)
        build = partial(create_vit, path.name, **shape, num_classes=0, global_pool="token")
        module = build_filled(build, state, path.name)
        files = {path.name: file_sha256(path)}
        origin = Origin(f"mae:{path.name}", "mae", "VisionTransformer", files)
        return finish_timm(module, origin, {"mean": None}, vit=VIT_MAE)

    def own_preprocess(self, model: LoadedModel) -> ImagePreprocess:
        """Return the evaluation transform of timm, which MAE used."""
        return TIMM.own_preprocess(model)


LOADER = MaeLoader()


def _is_mae_state(state: Mapping[str, Tensor]) -> bool:
    """Whether tensors have the names of an original MAE encoder."""
    return {"cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.norm1.weight"} <= set(
        state
    )


def _is_decoder(key: str) -> bool:
    return key.startswith("decoder_") or key == "mask_token"


def _mae_shape(state: Mapping[str, Tensor], name: str) -> dict[str, Any]:
    if not _is_mae_state(state):
        raise ModelError(
            f"{name} is no MAE encoder (no patch_embed, pos_embed or blocks); for another "
            "architecture give timm:name@file or torchvision:name@file"
        )
    hidden = state.get("blocks.0.mlp.fc1.weight")
    shapes = state["patch_embed.proj.weight"].ndim, state["pos_embed"].ndim
    if shapes != (4, 3) or hidden is None or not hidden.ndim:
        raise ModelError(f"{name} has weights of other shapes than an MAE encoder; is it damaged?")
    width, channels, patch, _ = state["patch_embed.proj.weight"].shape
    if width not in _MAE_HEADS:
        known = ", ".join(str(w) for w in _MAE_HEADS)
        raise ModelError(
            f"{name} is {width} wide, and the number of its attention heads is not in the file; "
            f"known widths: {known}; use timm:architecture@{name} instead"
        )
    return {
        "img_size": math.isqrt(max(0, state["pos_embed"].shape[1] - 1)) * patch,
        "patch_size": patch,
        "in_chans": channels,
        "embed_dim": width,
        "depth": len({k.split(".")[1] for k in state if k.startswith("blocks.")}),
        "num_heads": _MAE_HEADS[width],
        "mlp_ratio": hidden.shape[0] / width,
    }
