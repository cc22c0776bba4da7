"""What a model of transformers is made of, read from its modules and from one pass through it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import ModelError
from repalign.models.loaders.families import CNN, DECODER, ENCODER, VIT, Family
from repalign.models.loaders.loaded import Call
from repalign.models.views.capture import first_tensor
from repalign.models.views.layers import FINAL, PRE_NORM, LayerMap, Tap, module_names

_OWN_TOKENS = re.compile(
    r"(^|\.)(cls_tokens?|class_token|class_embeddings?|distillation_token|register_tokens)$"
)
_CLASS_TOKEN = re.compile(r"(^|\.)(cls_tokens?|class_token|class_embeddings?)$")
_TOKENS = "the model's last_hidden_state"
# A causal model gives the same rows whatever follows; float32 rounds at about 1e-6.
_CAUSAL = 1e-4


@dataclass(frozen=True)
class Structure:
    """How a model is run, and which of its tensors are which."""

    family: Family
    layers: LayerMap
    call: Call
    needs_mask: bool = False
    prefix_tokens: int = 0


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
    family = replace(DECODER if is_causal else ENCODER, final_note=_TOKENS)
    return Structure(family, seen.layers(module, tuple(ids.shape)), call, not is_causal)


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
        family = replace(CNN, final_note=f"{_TOKENS}, or its pooled one where that is a map")
        return Structure(family, layers, _image_call)
    if last.shape[1] != (patches or 0) + own:
        raise ModelError(
            f"{name} gives {last.shape[1]} tokens for {patches} patches and has {own} tokens of "
            "its own; which of them are patches is unknown"
        )
    family = replace(VIT, final_note=f"patch tokens of {_TOKENS}")
    if not any(_CLASS_TOKEN.search(key) for key, _ in module.named_parameters()):
        family = replace(family, pools=tuple(pool for pool in family.pools if pool != "cls"))
    return Structure(family, layers, _image_call, prefix_tokens=own)


def read_blocks(module: Any, call: Call, size: tuple[int, int, int]) -> tuple[str, ...]:
    """Find the blocks of an image model by a pass over noise; none where there is no such list."""
    pixels = torch.randn(2, *size, generator=torch.Generator().manual_seed(0))
    seen = Seen.of(module, lambda: call(module, {"pixel_values": pixels}))
    return seen.blocks(module, (2,))


def _members(name: str, part: nn.ModuleList | nn.Sequential) -> list[str]:
    """Names of the modules of a list; those of lists inside it, which do not run themselves."""
    names = []
    for child, block in part.named_children():
        own = f"{name}.{child}"
        names += _members(own, block) if isinstance(block, nn.ModuleList) else [own]
    return names


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
        return _last_state(module(**plain))

    return call


def _image_call(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
    returned = module(pixel_values=inputs["pixel_values"])
    last = _last_state(returned)
    if last is not None and last.ndim == 4:
        pooled = getattr(returned, "pooler_output", None)
        last = last.mean((2, 3)) if pooled is None else pooled.flatten(1)
    return last


def _last_state(returned: Any) -> Tensor | None:
    found = getattr(returned, "last_hidden_state", None)
    return found if isinstance(found, Tensor) else None


@dataclass(frozen=True)
class Seen:
    """What came out of every module in one pass, and how often it ran."""

    outputs: dict[str, Tensor]
    runs: dict[str, int]
    returned: Tensor | None

    @classmethod
    def of(cls, module: nn.Module, run: Callable[[], Tensor | None]) -> "Seen":
        """Watch one pass."""
        outputs: dict[str, Tensor] = {}
        runs: dict[str, int] = {}

        def hook(name: str) -> Any:
            def keep(_module: nn.Module, _arguments: Any, output: Any) -> None:
                tensor = first_tensor(output)
                runs[name] = runs.get(name, 0) + 1
                if tensor is not None:
                    outputs[name] = tensor

            return keep

        handles = [part.register_forward_hook(hook(k)) for k, part in module.named_modules() if k]
        try:
            with torch.no_grad():
                returned = run()
        finally:
            for handle in handles:
                handle.remove()
        return cls(outputs, runs, returned)

    def layers(self, module: nn.Module, leading: tuple[int, ...]) -> LayerMap:
        """Find the blocks, the final state and the norm before it by what they gave."""
        blocks, names = self.blocks(module, leading), module_names(module)
        inside = tuple(f"{block}." for block in blocks)
        norms = [
            name
            for name, tensor in self.outputs.items()
            if self._is_last(tensor)
            and self.runs[name] == 1
            and not name.startswith(inside)  # BERT ends each block in its own norm
            and type(module.get_submodule(name)).__name__.endswith("Norm")
        ]
        if norms:
            before = Tap(PRE_NORM, norms[-1], "input")
            return LayerMap(blocks, Tap(FINAL, norms[-1]), before, names)
        if blocks and self._is_last(self.outputs[blocks[-1]]):
            return LayerMap(blocks, Tap(FINAL, blocks[-1]), None, names)
        return LayerMap(blocks, Tap(FINAL, "", "returned"), None, names)

    def _is_last(self, tensor: Tensor) -> bool:
        return self.returned is not None and torch.equal(tensor, self.returned)

    def blocks(self, module: nn.Module, leading: tuple[int, ...]) -> tuple[str, ...]:
        """Names of the largest list of alike modules that each run once and give states."""
        best: tuple[str, ...] = ()
        most = 0
        for name, part in module.named_modules():
            if not name or not isinstance(part, nn.ModuleList | nn.Sequential) or not len(part):
                continue
            names = _members(name, part)
            size = sum(parameter.numel() for parameter in part.parameters())
            if len({type(module.get_submodule(each)) for each in names}) > 1 or size <= most:
                continue
            if all(self._is_block(each, leading) for each in names):
                best, most = tuple(names), size
        return best

    def _is_block(self, name: str, leading: tuple[int, ...]) -> bool:
        tensor = self.outputs.get(name)
        is_shaped = tensor is not None and tuple(tensor.shape[: len(leading)]) == leading
        return self.runs.get(name) == 1 and is_shaped and tensor is not None and tensor.ndim >= 3
