"""Dividing an extraction: samples into shards and batches, shards among processes; kept rows."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError
from repalign.store.writing.options import WriteOptions

if TYPE_CHECKING:
    from repalign.models.views.pooling import TokenChoice

Positions = NDArray[np.int64]
_MIN_SAMPLES, _MAX_SAMPLES = 16, 1024
# What a batch costs beside its tokens, of a full one on a CPU, by core seconds of one
# thread: with 1/12 the whole is slower by 2 %.
_BATCH_COST = 1 / 32
# Rank, number of processes, rank among those of one machine.
_RANKS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


def samples_per_shard(rows_per_sample: float, row_bytes: int) -> int:
    """Samples of one shard: as many rows as the store's, a power of two from 16 to 1024.

    A killed run loses the shards on their way; more samples would be too much work.
    """
    fitting = WriteOptions().rows_of_shard(row_bytes) / max(1.0, rows_per_sample)
    power = 2 ** int(math.log2(max(1.0, fitting)))
    return min(_MAX_SAMPLES, max(_MIN_SAMPLES, power))


def shard_bounds(number: int, n_samples: int, per_shard: int) -> tuple[int, int]:
    """First sample of a shard and the one behind its last."""
    return number * per_shard, min(n_samples, (number + 1) * per_shard)


def read_rank(environment: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Rank of this process and number of processes, from torchrun's or Slurm's variables.

    Raises InputError when they make no sense.
    """
    variables = os.environ if environment is None else environment
    for rank_name, size_name, _ in _RANKS:
        if rank_name in variables and size_name in variables:
            texts = variables[rank_name], variables[size_name]
            if not all(text.isdigit() for text in texts) or int(texts[0]) >= int(texts[1]):
                raise InputError(
                    f"{rank_name}={texts[0]} and {size_name}={texts[1]} make no sense; "
                    "expected a rank below the number of processes, or neither variable"
                )
            return int(texts[0]), int(texts[1])
    return 0, 1


def read_local_rank(environment: Mapping[str, str] | None = None) -> int | None:
    """Return the rank among the processes of this machine, None without a launcher.

    Raises InputError when it is not a number.
    """
    variables = os.environ if environment is None else environment
    for rank_name, size_name, local_name in _RANKS:
        if rank_name in variables and size_name in variables:
            text = variables.get(local_name)
            if text is not None and not text.isdigit():
                raise InputError(
                    f"{local_name}: got {text!r}, expected a whole number; leave it out, or use "
                    "--device cuda:N"
                )
            return None if text is None else int(text)
    return None


def default_workers() -> int:
    """Number of decoding threads: one per core that this process may use, at most eight."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4)


def plan_batches(
    lengths: Sequence[int], budget: int, *, is_apart: bool = False
) -> list[NDArray[np.int64]]:
    """Group samples of similar length, longest first, so that padded batches fit the budget.

    A batch has at most ``budget`` tokens, padding included, and at least one sample; with
    ``is_apart`` samples of one length alone, and no padding. Of all ways to cut the ordered
    samples, that with the fewest tokens, where every batch counts some more for itself.
    """
    whole = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-whole, kind="stable")
    ordered = np.maximum(whole[order], 1)
    stops = _equal_stops(ordered, budget) if is_apart else _cheapest_stops(ordered, budget)
    return np.split(order, stops)


def _equal_stops(ordered: NDArray[np.int64], budget: int) -> list[int]:
    """Where batches of one length end, but for the last of all."""
    stops, start = [], 0
    while start < len(ordered):
        fitting = ordered[start : start + max(1, budget // int(ordered[start]))]
        start += int((fitting == fitting[0]).sum())
        stops.append(start)
    return stops[:-1]


def _cheapest_stops(ordered: NDArray[np.int64], budget: int) -> list[int]:
    """Where the batches end that cost least, but for the last of all.

    The cheapest way to cut the samples from any one on follows from those of its successors.
    """
    count = len(ordered)
    costs, ends = np.zeros(count + 1), np.full(count + 1, count)
    for start in range(count - 1, -1, -1):
        width = int(ordered[start])
        most = min(count - start, max(1, budget // width))
        tokens = width * np.arange(1, most + 1)
        total = costs[start + 1 : start + most + 1] + tokens + budget * _BATCH_COST
        best = int(np.argmin(total))
        costs[start], ends[start] = total[best], start + best + 1
    stops = [int(ends[0])]
    while stops[-1] < count:
        stops.append(int(ends[stops[-1]]))
    return stops[:-1]


@dataclass(frozen=True)
class Keep:
    """Chooses the positions of a sample that become rows; without ``tokens`` they are pooled."""

    tokens: "TokenChoice | None"
    seed: int

    def __call__(self, length: int, sample_hash: bytes) -> Positions | None:
        """Positions kept of a sample of that length and hash, None when it is pooled."""
        if self.tokens is None:
            return None
        return self.tokens.positions(length, seed=self.seed, sample_hash=sample_hash)

    def rows(self, length: int, sample_hash: bytes) -> int:
        """Rows that such a sample gives."""
        kept = self(length, sample_hash)
        return 1 if kept is None else len(kept)
