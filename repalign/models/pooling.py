"""From hidden states to rows: pooling over tokens, patches or positions, on their device."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repalign.exceptions import InputError
from repalign.models.families import Pool

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """One padded batch on the device of the model.

    ``inputs`` are the model's arguments; ``lengths`` the real tokens per sample, on the device
    as ``(batch,)`` int64, None for images; ``positions`` the tokens or patches to keep of each
    sample, on the host, None when rows are pooled.
    """

    inputs: dict[str, Tensor]
    lengths: Tensor | None = None
    positions: Sequence[Positions] | None = None


def as_sequence(hidden: Tensor, *, channels_last: bool = False) -> Tensor:
    """Bring hidden states to ``(batch, positions, columns)``.

    A feature map ``(batch, columns, height, width)`` becomes one position per pixel, a vector
    ``(batch, columns)`` one position.

    Raises InputError for any other number of dimensions.
    """
    if hidden.ndim == 2:
        return hidden[:, None, :]
    if hidden.ndim == 3:
        return hidden
    if hidden.ndim == 4:
        return hidden.flatten(1, 2) if channels_last else hidden.flatten(2).transpose(1, 2)
    raise InputError(
        f"this layer gives a tensor of {hidden.ndim} dimensions; expected 2 (vectors), "
        "3 (tokens) or 4 (feature maps): choose another layer"
    )


def pool_rows(hidden: Tensor, pool: Pool, batch: Batch, prefix_tokens: int = 0) -> Tensor:
    """Pool ``(batch, positions, columns)`` to rows in float32.

    Padding, on the right, never enters: means run over real tokens and ``last`` is the last
    real one. For images, ``mean`` takes all tokens, ``patch-mean`` those behind the prefix.
    Gives ``(batch, columns)``, or for ``token`` the kept positions of all samples in order.
    """
    if pool == "token":
        return _take_positions(hidden, batch, prefix_tokens).float()
    if pool == "cls":
        return hidden[:, 0].float()
    if pool == "last":
        return _last(hidden, batch.lengths).float()
    if pool == "patch-mean":
        return hidden[:, prefix_tokens:].float().mean(1)
    return _mean(hidden.float(), batch.lengths)


def _mean(hidden: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is None:
        return hidden.mean(1)
    padding = _arange_like(hidden, hidden.shape[1]) >= lengths[:, None]
    # masked_fill and not a product: a padded position may hold NaN
    total = hidden.masked_fill(padding[..., None], 0.0).sum(1)
    return total / lengths[:, None]


def _last(hidden: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is None:
        return hidden[:, -1]
    return hidden[_arange_like(hidden, hidden.shape[0]), lengths - 1]


def _arange_like(hidden: Tensor, stop: int) -> Tensor:
    return torch.arange(stop, device=hidden.device)


def _take_positions(hidden: Tensor, batch: Batch, prefix_tokens: int) -> Tensor:
    # The flat index is made on the host, where lengths are known: a boolean mask would make
    # the host wait for the device to count.
    assert batch.positions is not None, "token rows need positions"
    width = hidden.shape[1]
    flat = np.concatenate(
        [row * width + prefix_tokens + kept for row, kept in enumerate(batch.positions)]
    )
    index = torch.from_numpy(flat)
    if hidden.device.type == "cuda":
        index = index.pin_memory()
    return hidden.flatten(0, 1).index_select(0, index.to(hidden.device, non_blocking=True))
