"""Taking tensors out of a running model by hooks, several in one forward pass."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import ModelError
from repalign.models.views.layers import Tap


@contextmanager
def capture_taps(module: nn.Module, taps: Sequence[Tap]) -> Iterator[dict[str, Tensor]]:
    """Fill the yielded dictionary (tap label to tensor) whenever the module runs."""
    tensors: dict[str, Tensor] = {}
    handles = []
    for tap in taps:
        target = None if tap.side == "returned" else module.get_submodule(tap.module)
        if target is None:
            continue
        if tap.side == "input":
            hook = _input_hook(tensors, tap.label)
            handles.append(target.register_forward_pre_hook(hook, with_kwargs=True))
        else:
            handles.append(target.register_forward_hook(_output_hook(tensors, tap.label)))
    try:
        yield tensors
    finally:
        for handle in handles:
            handle.remove()


def make_hooks_safe(module: nn.Module) -> None:
    """Turn off in-place operations, which would overwrite a tensor after it was taken.

    Values do not change by this, only memory use.
    """
    for part in module.modules():
        if getattr(part, "inplace", False) is True:
            part.inplace = False  # type: ignore[assignment]


def missing_tap(label: str) -> ModelError:
    """Return the error for a module that did not run or gave no tensor."""
    return ModelError(
        f"the layer {label!r} gave no tensor in a forward pass: the model does not run it, or it "
        "returns something else; choose another layer (`repalign models show` lists them)"
    )


def _output_hook(tensors: dict[str, Tensor], label: str) -> Any:
    def hook(_module: nn.Module, _arguments: Any, output: Any) -> None:
        found = _first_tensor(output)
        if found is not None:
            tensors[label] = found

    return hook


def _input_hook(tensors: dict[str, Tensor], label: str) -> Any:
    def hook(_module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        found = _first_tensor((*arguments, *named.values()))
        if found is not None:
            tensors[label] = found

    return hook


def _first_tensor(value: Any) -> Tensor | None:
    if isinstance(value, torch.Tensor):
        return value
    parts = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, Mapping | tuple | list):
        return next((part for part in parts if isinstance(part, torch.Tensor)), None)
    return None
