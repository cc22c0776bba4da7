"""Taking tensors out of a running model by hooks, several in one forward pass.

A hook sees a tensor when its module gives it. What comes later may write into the same memory
(``out += identity``, an activation in place); torch counts these writes, and a tensor whose
count has moved is taken once more, as a copy.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import ModelError
from repalign.models.loaders.boundary import hook
from repalign.models.views.layers import Tap


def run_capturing(
    module: nn.Module,
    taps: Sequence[Tap],
    run: Callable[[], Tensor | None],
    overwritten: set[Tap],
) -> dict[str, Tensor]:
    """Run a module and return the tensor of every tap by label, as its module gave it.

    ``run`` makes one forward pass, without gradients but not in inference mode, where writes
    are not counted; what it returns is the tensor of a tap ``returned``. ``overwritten`` holds
    the taps known to be overwritten later, which are copied; a pass that finds another one adds
    it and is made again, so that every pass is right and only what needs it is copied.

    Raises ModelError when a tap's module does not run or gives no tensor.
    """
    while True:
        taken: dict[Tap, tuple[Tensor, int]] = {}
        with _hooks(module, taps, taken, overwritten):
            returned = run()
        moved = {tap for tap, (tensor, count) in taken.items() if tensor._version != count}
        if not moved:
            break
        overwritten |= moved
    tensors = {tap.label: tensor for tap, (tensor, _) in taken.items()}
    for tap in taps:
        if tap.side == "returned" and returned is not None:
            tensors[tap.label] = returned
        if tap.label not in tensors:
            raise missing_tap(tap.label)
    return tensors


def missing_tap(label: str) -> ModelError:
    """Return the error for a module that did not run or gave no tensor."""
    return ModelError(
        f"the layer {label!r} gave no tensor in a forward pass: the model does not run it, or it "
        "returns something else; choose another layer (`repalign models show` lists them)"
    )


@contextmanager
def _hooks(
    module: nn.Module,
    taps: Sequence[Tap],
    taken: dict[Tap, tuple[Tensor, int]],
    overwritten: set[Tap],
) -> Iterator[None]:
    handles = []
    for tap in taps:
        if tap.side == "returned":
            continue
        target = module.get_submodule(tap.module)
        take = _taker(tap, taken, overwritten)
        if tap.side == "input":
            handles.append(target.register_forward_pre_hook(_on_input(take), with_kwargs=True))
        else:
            handles.append(target.register_forward_hook(_on_output(take)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _taker(
    tap: Tap, taken: dict[Tap, tuple[Tensor, int]], overwritten: set[Tap]
) -> Callable[[Any], None]:
    def take(value: Any) -> None:
        tensor = first_tensor(value)
        if tensor is None:
            return
        if tap in overwritten or tensor.is_inference():
            with torch.inference_mode(mode=False):
                tensor = tensor.clone()
        taken[tap] = tensor, tensor._version

    return take


def _on_output(take: Callable[[Any], None]) -> Any:
    return hook(lambda _module, _arguments, output: take(output))


def _on_input(take: Callable[[Any], None]) -> Any:
    return hook(lambda _module, arguments, named: take((*arguments, *named.values())))


def first_tensor(value: Any) -> Tensor | None:
    """Return the first tensor of what a module takes or gives, None when there is none.

    Some blocks hand on a pair or a list as their one argument; its first tensor is meant.
    """
    if isinstance(value, torch.Tensor):
        return value
    if not isinstance(value, Mapping | tuple | list):
        return None
    parts = list(value.values() if isinstance(value, Mapping) else value)
    plain = next((part for part in parts if isinstance(part, torch.Tensor)), None)
    if plain is not None:
        return plain
    return next((found for part in parts if (found := first_tensor(part)) is not None), None)
