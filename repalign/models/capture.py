"""Views of a model, and the one forward pass that makes the rows of several.

Rows are pooled inside the hook, the moment a module gives its state: what later operations write
into the same memory (``out += identity``, an activation in place) comes too late to change them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repalign.exceptions import InputError, ModelError
from repalign.models.encoder import FINAL, Encoder, Tap, hook, resolve_layers
from repalign.models.families import POOLS, Family, Pool

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """One padded batch on the device of the model.

    ``inputs`` are the model's arguments; ``lengths`` the real tokens per sample, on the device
    as ``(batch,)`` int64, None for images; ``tokens`` says which tokens or patches become rows, as
    two index tensors on the device (see ``flatten_positions``), None for all of them.
    """

    inputs: dict[str, Tensor]
    lengths: Tensor | None = None
    tokens: tuple[Tensor, Tensor] | None = None


def flatten_positions(positions: Sequence[Positions]) -> tuple[Tensor, Tensor]:
    """Turn positions of every sample into two index tensors: sample and position.

    They are made on the host, where lengths are known: a boolean mask on the device would make
    the host wait for the device to count.
    """
    counts = [len(part) for part in positions]
    samples = np.repeat(np.arange(len(positions), dtype=np.int64), counts)
    return torch.from_numpy(samples), torch.from_numpy(np.concatenate(positions))


def as_sequence(
    hidden: Tensor, image: Sequence[int] | None = None, *, channels_last: bool = False
) -> Tensor:
    """Bring hidden states to ``(batch, positions, columns)``.

    A feature map becomes one position per pixel, a vector ``(batch, columns)`` one position.
    Which sides of a map are its height and width follows from the proportions of ``image``; where
    both ways fit, from ``channels_last``.

    Raises InputError for any other number of dimensions, and for four of other proportions.
    """
    if hidden.ndim == 2:
        return hidden[:, None, :]
    if hidden.ndim == 3:
        return hidden
    if hidden.ndim != 4:
        raise InputError(
            f"this layer gives a tensor of {hidden.ndim} dimensions; expected 2 (vectors), "
            "3 (tokens) or 4 (feature maps): choose another layer"
        )
    first, second, third = hidden.shape[1:]
    is_first, is_last = _fits(second, third, image), _fits(first, second, image)
    if not (is_first or is_last):
        raise InputError(
            f"this layer gives a tensor of shape {tuple(hidden.shape)}, of which no two sides are "
            "those of an image: choose another layer"
        )
    if is_last and (channels_last or not is_first):
        return hidden.flatten(1, 2)
    return hidden.flatten(2).transpose(1, 2)


def _fits(height: int, width: int, image: Sequence[int] | None) -> bool:
    """Return whether two sides have the proportions of an image, but for rounding."""
    if image is None or image[0] == image[1]:
        return height == width
    return abs(height - width * image[0] / image[1]) <= 1 + image[0] / image[1]


def pool_rows(hidden: Tensor, pool: Pool, batch: Batch, prefix_tokens: int = 0) -> Tensor:
    """Pool ``(batch, positions, columns)`` to rows, a new tensor in float32.

    Padding, on the right, never enters: means run over real tokens and ``last`` is the last
    real one. For images, ``mean`` takes all tokens, ``patch-mean`` those behind the prefix. A
    vector has one position, and every pooling of it is the vector.
    Gives ``(batch, columns)``, or for ``token`` the kept positions of all samples in order.
    """
    is_vector = hidden.shape[1] == 1
    if pool == "token":
        return _tokens(hidden, batch, 0 if is_vector else prefix_tokens)
    if is_vector or pool == "cls":
        return hidden[:, 0].to(torch.float32, copy=True)
    if pool == "last":
        if batch.lengths is None:
            return hidden[:, -1].to(torch.float32, copy=True)
        return hidden[_arange_like(hidden, hidden.shape[0]), batch.lengths - 1].float()
    if pool == "patch-mean":
        return hidden[:, prefix_tokens:].float().mean(1)
    return _mean(hidden.float(), batch.lengths)


def _tokens(hidden: Tensor, batch: Batch, prefix_tokens: int) -> Tensor:
    if batch.tokens is not None:
        samples, positions = batch.tokens
        return hidden[samples, positions + prefix_tokens].float()
    if batch.lengths is not None:
        return hidden[_arange_like(hidden, hidden.shape[1]) < batch.lengths[:, None]].float()
    return hidden.flatten(0, 1).to(torch.float32, copy=True)


def _mean(hidden: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is None:
        return hidden.mean(1)
    padding = _arange_like(hidden, hidden.shape[1]) >= lengths[:, None]
    # masked_fill and not a product: a padded position may hold NaN
    total = hidden.masked_fill(padding[..., None], 0.0).sum(1)
    return total / lengths[:, None]


def _arange_like(hidden: Tensor, stop: int) -> Tensor:
    return torch.arange(stop, device=hidden.device)


@dataclass(frozen=True)
class View:
    """One layer under one pooling; ``key`` is its name in a store.

    ``prefix`` is the number of tokens that stand before the patches at this layer; as the model
    declares it, until ``fit_views`` has looked.
    """

    key: str
    tap: Tap
    pool: Pool
    prefix: int = 0


@dataclass(frozen=True)
class ViewShape:
    """Size of a layer: columns, and positions per sample before pooling (None for text)."""

    dim: int
    positions: int | None


def make_views(
    encoder: Encoder, layers: Sequence[str] = (), pools: Sequence[str] = ()
) -> tuple[View, ...]:
    """Cross layers with poolings; the family's defaults for none.

    Raises InputError for layers or poolings that the model does not have, and for a mixture
    of pooled and unpooled views, whose rows are not the same.
    """
    taps = resolve_layers(encoder.layers, layers or (FINAL,))
    family, final = encoder.family, encoder.layers.final
    poolings = list(dict.fromkeys(_check_pool(pool, family) for pool in pools))
    if "own" in family.pools:
        if not poolings:
            return tuple(View(tap.label, tap, "own" if tap == final else "mean") for tap in taps)
        for tap in taps:
            _check_own(tap, tap == final, poolings)
    poolings = poolings or [family.pools[0]]
    if "token" in poolings and len(poolings) > 1:
        raise InputError(
            "pooling 'token' gives other rows than pooled views; extract it into another store"
        )
    return tuple(
        View(
            f"{tap.label}.{pool}" if len(poolings) > 1 else tap.label,
            tap,
            pool,
            encoder.prefix_tokens,
        )
        for tap in taps
        for pool in poolings
    )


def _check_pool(pool: str, family: Family) -> Pool:
    for name in POOLS:
        if pool == name and name in family.pools:
            return name
    raise InputError(
        f"no pooling {pool!r} for a {family.name} model; expected {', '.join(family.pools)}"
    )


def _check_own(tap: Tap, is_final: bool, pools: Sequence[Pool]) -> None:
    if is_final and pools != ["own"]:
        raise InputError(
            f"the layer {tap.label!r} is pooled by the model's own rule; leave out --pool, or take "
            "--layer -1 for the states of its tokens"
        )
    if not is_final and "own" in pools:
        raise InputError(
            f"the layer {tap.label!r} has a state for every token, and pooling 'own' is of the "
            "layer final; give --pool mean"
        )


def fit_views(
    encoder: Encoder, views: Sequence[View], shapes: Mapping[str, ViewShape]
) -> tuple[View, ...]:
    """Find the tokens before the patches of every layer by its positions.

    Some models hold patches alone in their blocks and join the class token to them only later:
    a layer has as many positions as the final state, or as many less the declared prefix, or
    one. ``shapes`` are those of ``probe_shapes``.

    Raises InputError for a layer with another number, or without the class token that it is
    pooled by; for sounds, for a layer with other positions than the final state.
    """
    whole = shapes[encoder.layers.final.label].positions or 1
    fitted = []
    for view in views:
        positions = shapes[view.tap.label].positions or 1
        if encoder.family.kind == "audio" and positions != whole:
            raise InputError(
                f"the layer {view.tap.label!r} has {positions} positions where the final state has "
                f"{whole}, so which of them are padding is unknown; choose another"
            )
        prefix = 0
        if "patch-mean" in encoder.family.pools:
            prefix = _prefix(encoder.prefix_tokens, view, positions, whole)
        fitted.append(replace(view, prefix=prefix))
    return tuple(fitted)


def _prefix(declared: int, view: View, positions: int, whole: int) -> int:
    layer = view.tap.label
    if positions not in (1, whole, whole - declared):
        raise InputError(
            f"the layer {layer!r} has {positions} positions, the final state {whole} with "
            f"{declared} before the patches: which of them are patches is unknown; choose another"
        )
    if positions == whole:
        return declared
    if view.pool == "cls" and positions > 1:
        raise InputError(
            f"the layer {layer!r} holds patches alone, the class token joins them later; "
            "pool it by patch-mean, or choose the layer final"
        )
    return 0


def encode(
    encoder: Encoder,
    views: Sequence[View],
    batch: Batch,
    *,
    autocast: torch.dtype | None = None,
) -> dict[str, Tensor]:
    """Run one forward pass and return the rows of every view.

    Rows are float32 on the encoder's device.

    Raises ModelError when a layer does not run.
    """
    rows: dict[str, Tensor] = {}

    def pool_state(tap: Tap, state: Tensor) -> None:
        for view in views:
            if view.tap == tap:
                rows[view.key] = pool_rows(state, view.pool, batch, view.prefix)

    forward(encoder, [view.tap for view in views], batch.inputs, pool_state, autocast=autocast)
    return {view.key: rows[view.key] for view in views}


def forward(
    encoder: Encoder,
    taps: Sequence[Tap],
    inputs: Mapping[str, Tensor],
    take: Callable[[Tap, Tensor], None],
    *,
    autocast: torch.dtype | None = None,
) -> None:
    """Run one forward pass and hand every tapped state to ``take`` at once.

    States are ``(batch, positions, columns)``. Of a module that runs several times, every state
    is taken, the last one last.

    Raises ModelError when a tap's module does not run, InputError for a tensor of another form.
    """
    device = next(iter(inputs.values())).device.type
    visited: set[Tap] = set()

    def take_value(tap: Tap, value: Any) -> None:
        tensor = first_tensor(value)
        if tensor is not None:
            visited.add(tap)
            take(tap, _positions(encoder, tap, tensor, inputs))

    with (
        torch.no_grad(),
        nullcontext() if autocast is None else torch.autocast(device, dtype=autocast),
        _hooks(encoder, taps, take_value),
    ):
        returned = encoder.forward(encoder.module, inputs)
        for tap in dict.fromkeys(taps):
            if tap.side == "returned":
                take_value(tap, returned)
    for tap in taps:
        if tap not in visited:
            raise ModelError(
                f"the layer {tap.label!r} gave no tensor in a forward pass: the model does not run "
                "it, or it returns something else; choose another layer (`repalign models show` "
                "lists them)"
            )


@contextmanager
def _hooks(
    encoder: Encoder, taps: Sequence[Tap], take: Callable[[Tap, Any], None]
) -> Iterator[None]:
    handles = []
    for tap in dict.fromkeys(taps):
        if tap.side == "returned":
            continue
        target = encoder.module.get_submodule(tap.module)
        if tap.side == "input":
            handles.append(target.register_forward_pre_hook(_on_input(take, tap), with_kwargs=True))
        else:
            handles.append(target.register_forward_hook(_on_output(take, tap)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _on_output(take: Callable[[Tap, Any], None], tap: Tap) -> Any:
    return hook(lambda _module, _arguments, output: take(tap, output))


def _on_input(take: Callable[[Tap, Any], None], tap: Tap) -> Any:
    return hook(lambda _module, arguments, named: take(tap, (*arguments, *named.values())))


def first_tensor(value: Any) -> Tensor | None:
    """Return the first tensor among inputs or outputs, None when there is none.

    Some blocks hand on a pair or a list as their one argument; its first tensor is meant.
    """
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, Mapping | tuple | list):
        return None
    parts = list(value.values() if isinstance(value, Mapping) else value)
    plain = next((part for part in parts if isinstance(part, Tensor)), None)
    if plain is not None:
        return plain
    return next((inner for part in parts if (inner := first_tensor(part)) is not None), None)


def _positions(encoder: Encoder, tap: Tap, tensor: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
    """Return a state as ``(batch, positions, columns)``."""
    argument = next(iter(inputs.values()))
    is_text = encoder.family.kind == "text"
    leading = argument.shape[: 2 if is_text else 1]
    if tap == encoder.layers.final and "own" in encoder.family.pools:
        return tensor[:, None]
    if tensor.shape[: len(leading)] != leading or (is_text and tensor.ndim != 3):
        unit = "token" if is_text else "sample"
        raise InputError(
            f"the layer {tap.label!r} gives a tensor of shape {tuple(tensor.shape)}, not one "
            f"vector per {unit}; choose another layer"
        )
    sides = argument.shape[2:] if argument.ndim == 4 else None
    return as_sequence(tensor, sides, channels_last=encoder.channels_last)


def probe_shapes(
    encoder: Encoder, taps: Sequence[Tap], image_size: Sequence[int] | None = None
) -> dict[str, ViewShape]:
    """Find the sizes of tapped states by a pass over two blank inputs.

    ``image_size`` is ``(height, width)``; the model's own when it is not given.
    """
    shapes: dict[str, ViewShape] = {}
    is_text = encoder.family.kind == "text"

    def measure(tap: Tap, state: Tensor) -> None:
        shapes[tap.label] = ViewShape(state.shape[2], None if is_text else state.shape[1])

    weight = next(encoder.module.parameters())
    zeros = partial(torch.zeros, dtype=weight.dtype, device=weight.device)
    if encoder.sound is not None:
        inputs = {encoder.sound.key: zeros((2, *encoder.sound.shape))}
    elif is_text:
        inputs = {"input_ids": zeros((2, 3), dtype=torch.int64)}
    else:
        assert encoder.image_size is not None
        channels, *sides = encoder.image_size
        inputs = {"pixel_values": zeros((2, channels, *(image_size or sides)))}
    try:
        forward(encoder, (*taps, encoder.layers.final), inputs, measure)
    except ModelError as error:
        size = encoder.image_size
        if size is None or image_size is None or tuple(image_size) == size[1:]:
            raise
        raise ModelError(
            f"images of {image_size[0]}×{image_size[1]}: {error}; the model is made for "
            f"{size[1]}×{size[2]}, for instance --preprocess canonical{size[1]}"
        ) from error
    return shapes
