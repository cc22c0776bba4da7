"""Layers of a model by name or number, and the tensors that they are."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from repalign.exceptions import InputError

Side = Literal["output", "input", "returned"]
FINAL, PRE_NORM, ALL, EMBEDDINGS = "final", "pre-norm", "all", "embeddings"


@dataclass(frozen=True)
class Tap:
    """A tensor of a model: output or input of a module, or the returned value."""

    label: str
    module: str
    side: Side = "output"


@dataclass(frozen=True)
class LayerMap:
    """The layers of a model: blocks, the final state, and that before its norm."""

    blocks: tuple[str, ...]
    final: Tap
    pre_norm: Tap | None
    modules: tuple[str, ...]


def map_layers(module: nn.Module, blocks: Sequence[str], final: Tap | None = None) -> LayerMap:
    """Build the map of a model whose blocks are known.

    Without ``final``, that is the output of the norm behind the blocks, or of the last block
    when there is none (BERT ends each block in its own norm).
    """
    if final is not None:
        return LayerMap(tuple(blocks), final, None, module_names(module))
    norm = find_final_norm(module, blocks)
    if norm is None:
        return LayerMap(tuple(blocks), Tap(FINAL, blocks[-1]), None, module_names(module))
    # what enters the norm, and not the last block's output: class-attention may stand between
    before = Tap(PRE_NORM, norm, "input")
    return LayerMap(tuple(blocks), Tap(FINAL, norm), before, module_names(module))


def module_names(module: nn.Module) -> tuple[str, ...]:
    """Return the names of all modules that a hook can be put on."""
    return tuple(name for name, _ in module.named_modules() if name)


def find_final_norm(module: nn.Module, blocks: Sequence[str]) -> str | None:
    """Return the name of the norm behind the last block, if there is one.

    It is the first child of the model that stands behind the one holding the blocks and is a
    norm of some kind. ``fc_norm`` is another thing: it follows the pooling.
    """
    holder = blocks[0].split(".")[0]
    names = [name for name, _ in module.named_children()]
    for name in names[names.index(holder) + 1 :]:
        if name != "fc_norm" and type(getattr(module, name)).__name__.endswith("Norm"):
            return name
    return None


def resolve_layers(layers: LayerMap, requests: Iterable[str]) -> tuple[Tap, ...]:
    """Turn layer names as users write them into taps, without repeats, in order.

    ``final``, ``pre-norm``, ``all`` (every block, then final), a number (``0`` is what enters
    the first block, ``k`` the output of block k, ``-1`` of the last block, ``-2`` of the one
    before it), or the name of any module.

    Raises InputError for a layer that the model does not have, with near matches.
    """
    taps: dict[str, Tap] = {}
    for request in requests:
        for tap in _resolve(layers, request):
            taps.setdefault(tap.label, tap)
    return tuple(taps.values())


def _resolve(layers: LayerMap, request: str) -> tuple[Tap, ...]:
    if request == FINAL:
        return (layers.final,)
    if request == PRE_NORM:
        if layers.pre_norm is None:
            raise InputError(
                "this model applies no norm after its last block, so it has no layer 'pre-norm'; "
                "use 'final' or '-1'"
            )
        return (layers.pre_norm,)
    if request == ALL:
        blocks = [_block(layers, k) for k in range(1, len(layers.blocks) + 1)]
        if blocks and layers.final.module == layers.blocks[-1]:
            blocks.pop()  # the final state is the last block's output
        return (*blocks, layers.final)
    try:
        number = int(request)
    except ValueError:
        return (_module(layers, request),)
    return (_block(layers, number),)


def _block(layers: LayerMap, number: int) -> Tap:
    count = len(layers.blocks)
    if not count:
        raise InputError(
            f"no layer {number}: this model has no list of blocks that each run once; expected "
            "final or a module's name (`repalign models show` lists them)"
        )
    position = number if number >= 0 else count + 1 + number
    if not 0 <= position <= count:
        raise InputError(
            f"no layer {number}: the model has {count} blocks; "
            f"expected 0 to {count}, or -1 to -{count + 1}"
        )
    if position == 0:
        return Tap(EMBEDDINGS, layers.blocks[0], "input")
    return Tap(f"block-{position}", layers.blocks[position - 1])


def _module(layers: LayerMap, name: str) -> Tap:
    if name in layers.modules:
        return Tap(name, name)
    names = (FINAL, PRE_NORM, ALL, *layers.modules)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "expected final, pre-norm, all, a number"
    raise InputError(f"no layer {name!r} in this model; {hint} (`repalign models show` lists them)")
