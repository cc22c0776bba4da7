"""The division of an extraction: samples into shards, shards among processes."""

import math
import os
from collections.abc import Mapping

from repalign.exceptions import InputError
from repalign.store.writing.options import WriteOptions

_MIN_SAMPLES, _MAX_SAMPLES = 16, 1024
# Rank, number of processes, rank among those of one machine.
_RANKS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


def samples_per_shard(rows_per_sample: float, row_bytes: int) -> int:
    """Return the samples of one shard, a power of two from 16 to 1024.

    They give as many rows as a shard of the store has.

    A killed run loses the shards on their way; more samples would be too much work.
    """
    fitting = WriteOptions().rows_of_shard(row_bytes) / max(1.0, rows_per_sample)
    power = 2 ** int(math.log2(max(1.0, fitting)))
    return min(_MAX_SAMPLES, max(_MIN_SAMPLES, power))


def shard_bounds(number: int, n_samples: int, per_shard: int) -> tuple[int, int]:
    """Return the first sample of a shard and the one behind its last."""
    return number * per_shard, min(n_samples, (number + 1) * per_shard)


def read_rank(environment: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Return the rank of this process and the number of processes.

    Both are those of torchrun or Slurm.

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
    """Return the number of decoding threads: one per available core, at most eight."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4)
