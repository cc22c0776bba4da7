"""From hidden states to rows: pooled, or those of some tokens or patches."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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
class TokenChoice:
    """A rule that keeps some positions of every sample."""

    kind: Literal["all", "last", "stride", "sample"]
    number: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}" if self.number else self.kind

    def positions(self, length: int, *, seed: int, sample_hash: bytes) -> Positions:
        """Return the positions kept of a sample of ``length`` tokens, increasing.

        A random choice depends on the seed and on the sample's content alone, so that it is
        the same wherever the sample stands and whichever worker reads it.
        """
        everything = np.arange(length, dtype=np.int64)
        if self.kind == "last":
            return everything[-1:]
        if self.kind == "stride":
            return everything[:: self.number]
        if self.kind == "sample" and self.number < length:
            rng = np.random.default_rng([seed, int.from_bytes(sample_hash[:8], "big")])
            return np.sort(rng.choice(length, size=self.number, replace=False)).astype(np.int64)
        return everything


def parse_tokens(text: str) -> TokenChoice:
    """Parse ``all``, ``last``, ``stride:k`` or ``sample:n``.

    Raises InputError for anything else.
    """
    if text == "all":
        return TokenChoice("all")
    if text == "last":
        return TokenChoice("last")
    match = re.fullmatch(r"(stride|sample):([1-9]\d{0,8})", text)
    if match is None:
        raise InputError(f"unknown token choice {text!r}; expected all, last, stride:k or sample:n")
    kind: Literal["stride", "sample"] = "stride" if match[1] == "stride" else "sample"
    return TokenChoice(kind, int(match[2]))
