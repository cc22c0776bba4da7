"""How a text model of any family runs, read from passes over a few tokens."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import ModelError
from repalign.models.loaders.boundary import running
from repalign.models.loaders.families import DECODER, ENCODER
from repalign.models.loaders.loaded import Call, Structure
from repalign.models.structure.seen import TOKENS, Seen, last_state

# A causal model gives the same rows whatever follows; float32 rounds at about 1e-6.
_CAUSAL = 1e-4


def read_text_structure(module: Any, name: str) -> Structure:
    """Find out how a text model runs, by passes over a few tokens.

    A model whose first tokens do not feel the later ones is causal and runs without a mask;
    any other gets one. Raises ModelError when it gives no state for every token.
    """
    generator = torch.Generator().manual_seed(0)
    rows = module.get_input_embeddings().num_embeddings
    ids = torch.randint(0, rows, (2, 6), generator=generator)
    other = ids.clone()
    other[:, 4:] = (other[:, 4:] + rows // 2) % rows
    call = _text_call(module)
    seen = Seen.of(module, lambda: call(module, {"input_ids": ids}))
    last = seen.returned
    if last is None or last.ndim != 3 or last.shape[:2] != ids.shape:
        shape = None if last is None else tuple(last.shape)
        raise ModelError(
            f"{name} returns {shape} for 2 texts of 6 tokens, not a state for every token; it is "
            "no text encoder"
        )
    changed = Seen.of(module, lambda: call(module, {"input_ids": other})).returned
    assert changed is not None
    gap = (changed[:, :4] - last[:, :4]).abs().max() / last.square().mean().sqrt()
    is_causal = bool(gap < _CAUSAL)
    family = replace(DECODER if is_causal else ENCODER, final_note=TOKENS)
    layers = seen.layers(module, tuple(ids.shape))
    return Structure(family=family, layers=layers, call=call, needs_mask=not is_causal)


def _text_call(module: Any) -> Call:
    import inspect

    taken = inspect.signature(module.forward).parameters
    more = {"use_cache": False} if "use_cache" in taken else {}

    def call(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
        plain = {"input_ids": inputs["input_ids"], **more}
        mask = inputs.get("attention_mask")
        if mask is not None:
            # made as wide as some libraries take it; one row of it is the plain one
            plain["attention_mask"] = mask[:, 0, 0, :].long()
        with running(module):
            returned = module(**plain)
        return last_state(returned)

    return call
