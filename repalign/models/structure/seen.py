"""What happened in one pass through a model: what came out of which module, and how often."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from repalign.models.loaders.boundary import hook
from repalign.models.views.capture import first_tensor
from repalign.models.views.layers import FINAL, PRE_NORM, LayerMap, Tap, module_names

TOKENS = "the model's last_hidden_state"


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

        def keeper(name: str) -> Any:
            @hook
            def keep(_module: nn.Module, _arguments: Any, output: Any) -> None:
                tensor = first_tensor(output)
                runs[name] = runs.get(name, 0) + 1
                if tensor is not None:
                    outputs[name] = tensor

            return keep

        handles = [part.register_forward_hook(keeper(k)) for k, part in module.named_modules() if k]
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

    def are_blocks(self, names: Sequence[str], leading: tuple[int, ...]) -> bool:
        """Whether each of some modules runs once and gives states."""
        return bool(names) and all(self._is_block(name, leading) for name in names)

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
            if self.are_blocks(names, leading):
                best, most = tuple(names), size
        return best

    def _is_block(self, name: str, leading: tuple[int, ...]) -> bool:
        tensor = self.outputs.get(name)
        is_shaped = tensor is not None and tuple(tensor.shape[: len(leading)]) == leading
        return self.runs.get(name) == 1 and is_shaped and tensor is not None and tensor.ndim >= 3


def last_state(returned: Any) -> Tensor | None:
    """Return the last_hidden_state of what a model gives, None when there is none."""
    found = getattr(returned, "last_hidden_state", None)
    return found if isinstance(found, Tensor) else None


def _members(name: str, part: nn.ModuleList | nn.Sequential) -> list[str]:
    """Names of the modules of a list; those of lists inside it, which do not run themselves."""
    names = []
    for child, block in part.named_children():
        own = f"{name}.{child}"
        names += _members(own, block) if isinstance(block, nn.ModuleList) else [own]
    return names
