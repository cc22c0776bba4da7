"""The structure of a model of any family, read from forward passes over noise."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import ModelError
from repalign.models.capture import first_tensor
from repalign.models.encoder import (
    FINAL,
    PRE_NORM,
    Forward,
    LayerMap,
    SoundInput,
    Tap,
    hook,
    module_names,
    running,
)
from repalign.models.families import CNN, DECODER, ENCODER, SOUND, VIT, VIT_MAE

MASK = "attention_mask"
# A causal model gives the same rows whatever follows; float32 rounds at about 1e-6.
_CAUSAL = 1e-4
# Half a second at 16 kHz, and a shorter sound.
_LONG, _SHORT = 8000, 5000
# Of the root mean square: what padding changes is far above, float32 rounds far below.
_SAME = 1e-3
# Encoders whose attention takes a mask for every query as it is, which saves building one.
_TAKES_WIDE_MASKS = {"bert", "roberta", "xlm-roberta", "distilbert"}
_PREFIX_TOKENS = re.compile(
    r"(^|\.)(cls_tokens?|class_token|class_embeddings?|distillation_token|register_tokens)$"
)
_CLASS_TOKEN = re.compile(r"(^|\.)(cls_tokens?|class_token|class_embeddings?)$")


@dataclass(frozen=True)
class Trace:
    """The output of every module in one forward pass, and its number of runs."""

    module: nn.Module
    outputs: dict[str, Tensor]
    runs: dict[str, int]
    returned: Tensor | None

    def layers(self, leading: tuple[int, ...]) -> LayerMap:
        """Find the blocks, the final state and the norm before it.

        ``leading`` are the first sides of every state.
        """
        blocks, names = self.blocks(leading), module_names(self.module)
        inside = tuple(f"{block}." for block in blocks)
        norms = [
            name
            for name, tensor in self.outputs.items()
            if self._is_last(tensor)
            and self.runs[name] == 1
            and not name.startswith(inside)  # BERT ends each block in its own norm
            and type(self.module.get_submodule(name)).__name__.endswith("Norm")
        ]
        if norms:
            before = Tap(PRE_NORM, norms[-1], "input")
            return LayerMap(blocks, Tap(FINAL, norms[-1]), before, names)
        if blocks and self._is_last(self.outputs[blocks[-1]]):
            return LayerMap(blocks, Tap(FINAL, blocks[-1]), None, names)
        return LayerMap(blocks, Tap(FINAL, "", "returned"), None, names)

    def blocks(self, leading: tuple[int, ...]) -> tuple[str, ...]:
        """Return the largest list of alike modules that each run once."""
        best: tuple[str, ...] = ()
        largest = 0
        for name, part in self.module.named_modules():
            if not name or not isinstance(part, nn.ModuleList | nn.Sequential) or not len(part):
                continue
            names = _members(name, part)
            size = sum(parameter.numel() for parameter in part.parameters())
            if len({type(self.module.get_submodule(n)) for n in names}) > 1 or size <= largest:
                continue
            if self.are_blocks(names, leading):
                best, largest = tuple(names), size
        return best

    def are_blocks(self, names: Sequence[str], leading: tuple[int, ...]) -> bool:
        """Return whether all of some modules run once and give states."""
        for name in names:
            tensor = self.outputs.get(name)
            if tensor is None or self.runs[name] != 1 or tensor.ndim < 3:
                return False
            if tuple(tensor.shape[: len(leading)]) != leading:
                return False
        return bool(names)

    def _is_last(self, tensor: Tensor) -> bool:
        return self.returned is not None and torch.equal(tensor, self.returned)


def trace_forward(module: nn.Module, run: Callable[[], Tensor | None]) -> Trace:
    """Run one forward pass and record what came out of every module."""
    outputs: dict[str, Tensor] = {}
    runs: dict[str, int] = {}

    def record(name: str, _module: nn.Module, _arguments: Any, output: Any) -> None:
        tensor = first_tensor(output)
        runs[name] = runs.get(name, 0) + 1
        if tensor is not None:
            outputs[name] = tensor

    handles = [
        part.register_forward_hook(hook(partial(record, name)))
        for name, part in module.named_modules()
        if name
    ]
    try:
        with torch.no_grad():
            returned = run()
    finally:
        for handle in handles:
            handle.remove()
    return Trace(module, outputs, runs, returned)


def _members(name: str, part: nn.ModuleList | nn.Sequential) -> list[str]:
    """Return the names of the modules of a list, and of lists inside it."""
    names = []
    for child, block in part.named_children():
        path = f"{name}.{child}"
        names += _members(path, block) if isinstance(block, nn.ModuleList) else [path]
    return names


def image_blocks(
    module: nn.Module, forward: Forward, size: tuple[int, int, int], named: Sequence[str] = ()
) -> tuple[str, ...]:
    """Find the blocks of an image model by a pass over noise.

    ``named`` are those that its library names, which hold if each runs once and gives states.
    """
    pixels = torch.randn(2, *size, generator=torch.Generator().manual_seed(0))
    trace = trace_forward(module, lambda: forward(module, {"pixel_values": pixels}))
    return tuple(named) if trace.are_blocks(named, (2,)) else trace.blocks((2,))


def text_structure(module: Any, name: str) -> dict[str, Any]:
    """Return the fields of an ``Encoder`` of texts, by passes over tokens.

    A model whose first tokens do not depend on the later ones is causal and runs without a mask:
    padding stands on the right, where no real token can see it. Any other gets one.

    Raises ModelError when it gives no state for every token.
    """
    generator = torch.Generator().manual_seed(0)
    rows = module.get_input_embeddings().num_embeddings
    ids = torch.randint(0, rows, (2, 6), generator=generator)
    other = ids.clone()
    other[:, 4:] = (other[:, 4:] + rows // 2) % rows
    forward = _text_forward(module)
    trace = trace_forward(module, lambda: forward(module, {"input_ids": ids}))
    last = trace.returned
    if last is None or last.ndim != 3 or last.shape[:2] != ids.shape:
        shape = None if last is None else tuple(last.shape)
        raise ModelError(
            f"{name} returns {shape} for 2 texts of 6 tokens, not a state for every token; "
            "expected a text encoder"
        )
    with torch.no_grad():
        changed = forward(module, {"input_ids": other})
    assert changed is not None
    gap = (changed[:, :4] - last[:, :4]).abs().max() / last.square().mean().sqrt()
    is_causal = not bool(gap >= _CAUSAL)  # so is a damaged model, whose rows are not finite
    return {
        "family": DECODER if is_causal else ENCODER,
        "layers": trace.layers(tuple(ids.shape)),
        "forward": forward,
        "needs_mask": not is_causal,
    }


def _text_forward(module: Any) -> Forward:
    takes_cache = "use_cache" in inspect.signature(module.forward).parameters
    options = {"use_cache": False} if takes_cache else {}
    is_wide = module.config.model_type in _TAKES_WIDE_MASKS

    def forward(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
        arguments = {"input_ids": inputs["input_ids"], **options}
        if MASK in inputs:
            mask = inputs[MASK]
            width = mask.shape[1]
            wide = mask[:, None, None, :].expand(-1, -1, width, -1)
            arguments[MASK] = wide if is_wide else mask.long()
        with running(module):
            returned = module(**arguments)
        return last_state(returned)

    return forward


def image_structure(module: Any, name: str, size: tuple[int, int, int]) -> dict[str, Any]:
    """Return the fields of an ``Encoder`` of images, by a pass over noise.

    Raises ModelError when the number of its tokens does not fit its patches.
    """
    is_mae = module.config.model_type == "vit_mae"
    forward = _unmasked_forward if is_mae else _image_forward
    pixels = torch.randn(2, *size, generator=torch.Generator().manual_seed(0)).to(module.dtype)
    trace = trace_forward(module, lambda: forward(module, {"pixel_values": pixels}))
    last = trace.returned
    if last is None or last.ndim not in (2, 3) or len(last) != 2:
        shape = None if last is None else tuple(last.shape)
        raise ModelError(f"{name} returns {shape} for 2 images, not a representation of them")
    structure = {"layers": trace.layers((2,)), "forward": forward}
    prefix = sum(
        parameter.numel() // parameter.shape[-1]
        for key, parameter in module.named_parameters()
        if _PREFIX_TOKENS.search(key)
    )
    patches = _patches(module.config, size)
    if last.ndim == 2 or (prefix == 0 and last.shape[1] != patches):
        note = "the model's last_hidden_state, or its pooled one where that is a map"
        return {**structure, "family": replace(CNN, final_note=note)}
    if last.shape[1] != (patches or 0) + prefix:
        raise ModelError(
            f"{name} gives {last.shape[1]} tokens for {patches} patches and has {prefix} tokens of "
            "its own; which of them are patches is unknown"
        )
    family = VIT_MAE if is_mae else VIT
    if not any(_CLASS_TOKEN.search(key) for key, _ in module.named_parameters()):
        family = without_class_token(family)
    return {**structure, "family": family, "prefix_tokens": prefix}


def without_class_token(family: Any) -> Any:
    """Return a family without the pooling by a class token."""
    return replace(family, pools=tuple(pool for pool in family.pools if pool != "cls"))


def _patches(config: Any, size: tuple[int, int, int]) -> int | None:
    patch = getattr(config, "patch_size", None)
    if isinstance(patch, int):
        patch = (patch, patch)
    if not isinstance(patch, list | tuple) or len(patch) != 2:
        return None
    return (size[1] // patch[0]) * (size[2] // patch[1])


def _image_forward(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
    with running(module):
        returned = module(pixel_values=inputs["pixel_values"])
    last = last_state(returned)
    if last is not None and last.ndim == 4:
        pooled = getattr(returned, "pooler_output", None)
        last = last.mean((2, 3)) if pooled is None else pooled.flatten(1)
    return last


def _unmasked_forward(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
    # This class masks 75 % at random on every call, in eval mode too. With no masking and
    # fixed noise all patches pass, in their order.
    config: Any = module.config
    config.mask_ratio = 0.0
    pixels = inputs["pixel_values"]
    embeddings: Any = module.embeddings
    patches = embeddings.patch_embeddings.num_patches
    noise = torch.arange(patches, dtype=torch.float32, device=pixels.device)
    with running(module):
        returned = module(pixel_values=pixels, noise=noise.expand(len(pixels), -1))
    return last_state(returned)


def sound_structure(module: Any, name: str) -> dict[str, Any]:
    """Return the fields of an ``Encoder`` of sounds, by passes over noise.

    A model that takes waves gets a mask for the padding; where the rows of a sound change with
    its padding nevertheless (a norm over time, as in wav2vec2-base), only sounds of one length
    share a batch.

    Raises ModelError when it does not give the states that it declares.
    """
    if not hasattr(module, "_get_feat_extract_output_lengths"):
        raise ModelError(
            f"{name} does not tell how many states it gives for a sound; take a model of the "
            "wav2vec2, HuBERT, WavLM or Whisper families"
        )

    def states(length: int) -> int:
        return max(0, int(module._get_feat_extract_output_lengths(torch.tensor([length]))[0]))

    key, config = module.main_input_name, module.config
    is_wave = key == "input_values"
    # a wave, or the features of a window of fixed length
    shape = (_LONG,) if is_wave else (config.num_mel_bins, 2 * config.max_source_positions)
    noise = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)).to(module.dtype)
    trace = trace_forward(module, lambda: _sound_forward(module, {key: noise}))
    last, expected = trace.returned, states(shape[-1])
    if last is None or last.shape[:2] != (2, expected):
        got = None if last is None else tuple(last.shape)
        raise ModelError(
            f"{name} returns {got} for 2 sounds, expected {expected} states for each of them"
        )
    apart = is_wave and _changes_with_padding(module, noise, states(_SHORT))
    return {
        "family": SOUND,
        "layers": trace.layers((2, expected)),
        "forward": _sound_forward,
        "sound": SoundInput(key, shape, states, apart),
    }


def _sound_forward(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
    with running(module):
        returned = module(**inputs)
    return last_state(returned)


def _changes_with_padding(module: nn.Module, noise: Tensor, real: int) -> bool:
    """Return whether padding changes the states of a short sound."""
    mask = torch.ones(noise.shape, dtype=torch.int64)
    mask[1, _SHORT:] = 0
    with torch.no_grad():
        together = _sound_forward(module, {"input_values": noise * mask, MASK: mask})
        alone = _sound_forward(module, {"input_values": noise[1:, :_SHORT]})
    assert together is not None
    assert alone is not None
    gap = (together[1, :real] - alone[0]).abs().max() / alone.square().mean().sqrt()
    return not bool(gap < _SAME)


def last_state(returned: Any) -> Tensor | None:
    """Return the last_hidden_state of what a model returns, None when there is none."""
    state = getattr(returned, "last_hidden_state", None)
    return state if isinstance(state, Tensor) else None
