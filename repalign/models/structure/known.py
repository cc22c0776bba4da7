"""The families of transformers that are known by name: what they are made of, and their calls."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from repalign.models.loaders.boundary import running
from repalign.models.loaders.families import (
    CAUSAL_ENCODER,
    CNN,
    DECODER,
    ENCODER,
    VIT_MAE,
    Architecture,
    Family,
)
from repalign.models.loaders.loaded import Call, Structure
from repalign.models.views.layers import FINAL, LayerMap, Tap, find_blocks, map_layers

_BLOCK_COUNTS = ("num_hidden_layers", "n_layer", "n_layers")


def known_structure(
    module: Any, architecture: Architecture, config: Mapping[str, Any]
) -> Structure:
    """Return how a model of a known family is run, and which of its tensors are which."""
    family = _family(architecture, config)
    return Structure(
        family=family,
        layers=_layers(module, architecture),
        call=_call_for(family),
        needs_mask=family.kind == "text" and family.name != DECODER.name,
        prefix_tokens=_prefix_tokens(architecture),
    )


def _layers(module: nn.Module, architecture: Architecture) -> LayerMap:
    config: Any = module.config
    if architecture.family is CNN:
        blocks = find_blocks(module, len(config.depths))
        return map_layers(module, blocks, final=Tap(FINAL, "pooler"))
    count = next(int(getattr(config, key)) for key in _BLOCK_COUNTS if hasattr(config, key))
    return map_layers(module, find_blocks(module, count))


def _family(architecture: Architecture, config: Mapping[str, Any]) -> Family:
    # A BERT that was trained as a decoder masks causally; a mask for the padding would take the
    # place of that one, so it runs as decoders do.
    if architecture.family is ENCODER and config.get("is_decoder"):
        return CAUSAL_ENCODER
    return architecture.family


def _call_for(family: Family) -> Call:
    if family.name == DECODER.name:
        return _call_decoder
    if family is VIT_MAE:
        return _call_unmasked
    return _call_plain


def _call_plain(module: nn.Module, inputs: Mapping[str, Tensor]) -> None:
    with running(module):
        module(**inputs)


def _call_decoder(module: nn.Module, inputs: Mapping[str, Tensor]) -> None:
    # No mask: padding stands on the right, where no real token of a causal model can see it,
    # and without a mask attention takes its fastest kernel.
    with running(module):
        module(input_ids=inputs["input_ids"], use_cache=False)


def _call_unmasked(module: nn.Module, inputs: Mapping[str, Tensor]) -> None:
    # This class masks 75 % at random on every call, in eval mode too. With no masking and
    # fixed noise all patches pass, in their order.
    config: Any = module.config
    config.mask_ratio = 0.0
    pixels = inputs["pixel_values"]
    embeddings: Any = module.embeddings
    patches = embeddings.patch_embeddings.num_patches
    noise = torch.arange(patches, dtype=torch.float32, device=pixels.device)
    noise = noise.expand(len(pixels), -1)
    with running(module):
        module(pixel_values=pixels, noise=noise)


def _prefix_tokens(architecture: Architecture) -> int:
    own = architecture.prefix_tokens
    return architecture.family.prefix_tokens if own is None else own
