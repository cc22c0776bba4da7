"""Views: which rows a model gives, and the one pass that makes several of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from repalign.exceptions import InputError, ModelError
from repalign.models.loaders.families import POOLS, Family, Pool
from repalign.models.loaders.loaded import LoadedModel
from repalign.models.views.capture import run_capturing
from repalign.models.views.layers import FINAL, Tap, resolve_layers
from repalign.models.views.pooling import Batch, as_sequence, pool_rows


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


def check_pool(pool: str, family: Family) -> Pool:
    """Return the pooling if the family has it.

    Raises InputError naming those that it has.
    """
    for known in POOLS:
        if pool == known and known in family.pools:
            return known
    raise InputError(
        f"no pooling {pool!r} for a {family.name} model; expected {', '.join(family.pools)}"
    )


def make_views(
    model: LoadedModel, layers: Sequence[str] = (), pools: Sequence[str] = ()
) -> tuple[View, ...]:
    """Cross the wanted layers with the wanted poolings; the family's defaults for none.

    Raises InputError for layers or poolings that the model does not have, and for a mixture
    of pooled and unpooled views, whose rows are not the same.
    """
    taps = resolve_layers(model.layers, layers or (FINAL,))
    wanted = list(dict.fromkeys(check_pool(pool, model.family) for pool in pools))
    if not wanted and "own" in model.family.pools:
        return tuple(_by_own_pooling(model, tap) for tap in taps)
    wanted = wanted or [model.family.pools[0]]
    for tap in taps:
        _check_own(model, tap, wanted)
    if "token" in wanted and len(wanted) > 1:
        raise InputError(
            "pooling 'token' gives other rows than the rest; extract it into a store of its own"
        )
    return tuple(
        View(
            f"{tap.label}.{pool}" if len(wanted) > 1 else tap.label, tap, pool, model.prefix_tokens
        )
        for tap in taps
        for pool in wanted
    )


def _by_own_pooling(model: LoadedModel, tap: Tap) -> View:
    """The vector that the model makes itself at its end; the mean of tokens before."""
    return View(tap.label, tap, "own" if tap == model.layers.final else "mean")


def _check_own(model: LoadedModel, tap: Tap, pools: Sequence[Pool]) -> None:
    if "own" not in model.family.pools:
        return
    if tap == model.layers.final and pools != ["own"]:
        raise InputError(
            f"the layer {tap.label!r} is pooled by the model's own rule; leave out --pool, or take "
            "--layer -1 for the states of its tokens"
        )
    if tap != model.layers.final and "own" in pools:
        raise InputError(
            f"the layer {tap.label!r} has a state for every token, and pooling 'own' is of the "
            "layer final; give --pool mean"
        )


def fit_views(
    model: LoadedModel, views: Sequence[View], shapes: Mapping[str, ViewShape]
) -> tuple[View, ...]:
    """Find the tokens before the patches at every layer, by the number of its positions.

    Some models hold patches alone in their blocks and join the class token to them only later:
    a layer has as many positions as the final state, or as many less the declared prefix, or
    one. ``shapes`` are those of ``probe_shapes``.

    Raises InputError for a layer with another number, or without the class token that it is
    pooled by; for sounds, for a layer with other positions than the final state.
    """
    if model.family.kind == "audio":
        _check_frames(model, views, shapes)
    if "patch-mean" not in model.family.pools:
        return tuple(views)
    whole = shapes[model.layers.final.label].positions or 1
    return tuple(
        replace(view, prefix=_prefix(model, view, shapes[view.tap.label].positions or 1, whole))
        for view in views
    )


def _check_frames(
    model: LoadedModel, views: Sequence[View], shapes: Mapping[str, ViewShape]
) -> None:
    whole = shapes[model.layers.final.label].positions
    for view in views:
        found = shapes[view.tap.label].positions
        if found != whole:
            raise InputError(
                f"the layer {view.tap.label!r} has {found} positions where the final state has "
                f"{whole}, so which of them are padding is unknown; choose another"
            )


def _prefix(model: LoadedModel, view: View, positions: int, whole: int) -> int:
    declared, layer = model.prefix_tokens, view.tap.label
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


def encode_batch(
    model: LoadedModel,
    views: Sequence[View],
    batch: Batch,
    *,
    autocast: torch.dtype | None = None,
) -> dict[str, Tensor]:
    """Run one forward pass and return the rows of every view, float32, on the model's device.

    Raises ModelError when a wanted layer does not run.
    """
    hidden = run_taps(model, [view.tap for view in views], batch.inputs, autocast=autocast)
    return {view.key: _rows(view, hidden[view.tap.label], batch) for view in views}


def _rows(view: View, hidden: Tensor, batch: Batch) -> Tensor:
    if hidden.shape[1] > 1:
        return pool_rows(hidden, view.pool, batch, view.prefix)
    if view.pool == "token":
        return pool_rows(hidden, view.pool, batch)
    # a vector has one position, and every pooling of it is the vector
    return hidden[:, 0].float()


def run_taps(
    model: LoadedModel,
    taps: Sequence[Tap],
    inputs: Mapping[str, Tensor],
    *,
    autocast: torch.dtype | None = None,
) -> dict[str, Tensor]:
    """Run one forward pass and return the tapped tensors as ``(batch, positions, columns)``.

    Raises ModelError when a tap's module does not run.
    """
    unique = list({tap.label: tap for tap in taps}.values())
    device = next(iter(inputs.values())).device.type
    with (
        torch.no_grad(),
        torch.autocast(device, dtype=autocast, enabled=autocast is not None),
    ):
        tensors = run_capturing(
            model.module, unique, lambda: model.call(model.module, inputs), model.overwritten
        )
    return {
        label: _as_rows(label, tensor, next(iter(inputs.values())), model)
        for label, tensor in tensors.items()
    }


def _as_rows(label: str, tensor: Tensor, given: Tensor, model: LoadedModel) -> Tensor:
    """Check that a tensor has one row per sample, and for text one per token."""
    is_text = model.family.kind == "text"
    leading = given.shape[: 2 if is_text else 1]
    if label == model.layers.final.label and "own" in model.family.pools:
        return tensor[:, None]
    if tensor.shape[: len(leading)] != leading or (is_text and tensor.ndim != 3):
        unit = "token" if is_text else "sample"
        raise InputError(
            f"the layer {label!r} gives a tensor of shape {tuple(tensor.shape)}, not one vector "
            f"per {unit}; choose another layer"
        )
    sides = given.shape[2:] if given.ndim == 4 else None
    return as_sequence(tensor, sides, channels_last=model.channels_last)


def _of_size(error: ModelError, model: LoadedModel, wanted: Sequence[int] | None) -> ModelError:
    """Name the size where it is another one than the model's own."""
    if model.image_size is None or wanted is None or tuple(wanted) == model.image_size[1:]:
        return error
    (height, width), (own, across) = wanted, model.image_size[1:]
    return ModelError(
        f"images of {height}×{width}: {error}; the model is made for {own}×{across}, for instance "
        f"--preprocess canonical{own}"
    )


def probe_shapes(
    model: LoadedModel, taps: Sequence[Tap], image_size: Sequence[int] | None = None
) -> dict[str, ViewShape]:
    """Find the size of tapped tensors, and of the final one, by a pass over two blank inputs.

    ``image_size`` is ``(height, width)``; the model's own when it is not given.
    """
    device = next(model.module.parameters()).device
    if model.sound is not None:
        inputs = {model.sound.takes: torch.zeros(2, *model.sound.shape, device=device)}
    elif model.family.kind == "text":
        inputs = {"input_ids": torch.zeros(2, 3, dtype=torch.int64, device=device)}
    else:
        assert model.image_size is not None
        channels, *own = model.image_size
        inputs = {"pixel_values": torch.zeros(2, channels, *(image_size or own), device=device)}
    try:
        found = run_taps(model, (*taps, model.layers.final), inputs)
    except ModelError as error:
        raise _of_size(error, model, image_size) from error
    is_text = model.family.kind == "text"
    return {
        label: ViewShape(hidden.shape[2], None if is_text else hidden.shape[1])
        for label, hidden in found.items()
    }
