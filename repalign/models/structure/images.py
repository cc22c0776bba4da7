"""How an image model of any family runs, read from a pass over noise."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import ModelError
from repalign.models.loaders.boundary import running
from repalign.models.loaders.families import CNN, VIT
from repalign.models.loaders.loaded import Call, Structure
from repalign.models.structure.seen import TOKENS, Seen, last_state

_OWN_TOKENS = re.compile(
    r"(^|\.)(cls_tokens?|class_token|class_embeddings?|distillation_token|register_tokens)$"
)
_CLASS_TOKEN = re.compile(r"(^|\.)(cls_tokens?|class_token|class_embeddings?)$")


def read_image_structure(module: Any, name: str, size: tuple[int, int, int]) -> Structure:
    """Find out how an image model runs and which tokens stand before its patches.

    Raises ModelError when the number of its tokens does not fit its patches.
    """
    pixels = torch.randn(2, *size, generator=torch.Generator().manual_seed(0))
    seen = Seen.of(module, lambda: _image_call(module, {"pixel_values": pixels}))
    last = seen.returned
    if last is None or last.ndim not in (2, 3) or len(last) != 2:
        shape = None if last is None else tuple(last.shape)
        raise ModelError(f"{name} returns {shape} for 2 images, which is no representation of them")
    layers = seen.layers(module, (2,))
    own = sum(_count(p) for k, p in module.named_parameters() if _OWN_TOKENS.search(k))
    patches = _patches(module.config, size)
    if last.ndim == 2 or (own == 0 and last.shape[1] != patches):
        family = replace(CNN, final_note=f"{TOKENS}, or its pooled one where that is a map")
        return Structure(family=family, layers=layers, call=_image_call)
    if last.shape[1] != (patches or 0) + own:
        raise ModelError(
            f"{name} gives {last.shape[1]} tokens for {patches} patches and has {own} tokens of "
            "its own; which of them are patches is unknown"
        )
    family = replace(VIT, final_note=f"patch tokens of {TOKENS}")
    if not any(_CLASS_TOKEN.search(key) for key, _ in module.named_parameters()):
        family = replace(family, pools=tuple(pool for pool in family.pools if pool != "cls"))
    return Structure(family=family, layers=layers, call=_image_call, prefix_tokens=own)


def read_blocks(
    module: Any, call: Call, size: tuple[int, int, int], named: Sequence[str] = ()
) -> tuple[str, ...]:
    """Find the blocks of an image model by a pass over noise; none where there is no such list.

    ``named`` are those that its library says, which hold if each runs once and gives states.
    """
    pixels = torch.randn(2, *size, generator=torch.Generator().manual_seed(0))
    seen = Seen.of(module, lambda: call(module, {"pixel_values": pixels}))
    return tuple(named) if seen.are_blocks(named, (2,)) else seen.blocks(module, (2,))


def _count(tokens: Tensor) -> int:
    """Number of tokens in a parameter of shape ``(…, tokens, width)`` or ``(width,)``."""
    return tokens.numel() // tokens.shape[-1]


def _patches(config: Any, size: tuple[int, int, int]) -> int | None:
    patch = getattr(config, "patch_size", None)
    if isinstance(patch, int):
        patch = (patch, patch)
    if not isinstance(patch, list | tuple) or len(patch) != 2:
        return None
    return (size[1] // patch[0]) * (size[2] // patch[1])


def _image_call(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
    with running(module):
        returned = module(pixel_values=inputs["pixel_values"])
    last = last_state(returned)
    if last is not None and last.ndim == 4:
        pooled = getattr(returned, "pooler_output", None)
        last = last.mean((2, 3)) if pooled is None else pooled.flatten(1)
    return last
