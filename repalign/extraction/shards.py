"""From rows that come batch by batch to whole shards in data order."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repalign.data.samples import Sample
from repalign.exceptions import InputError, ModelError
from repalign.extraction.batches import HostBatch, Positions
from repalign.store import StoreWriter, WriteOptions
from repalign.store.joining.index import POOLED, SHA_BYTES, RowIndex, encode_ids

if TYPE_CHECKING:
    from torch import Tensor


_MIN_SAMPLES, _MAX_SAMPLES = 16, 1024


def row_index(
    samples: NDArray[np.int64],
    counts: Sequence[int] | NDArray[np.int64],
    hashes: Sequence[bytes],
    positions: Sequence[Positions] | None,
    ids: Sequence[str] | None,
) -> RowIndex:
    """Identify every row: ``samples`` are their places in the data, ``counts`` their rows."""
    tokens = np.full(sum(counts), POOLED) if positions is None else np.concatenate(positions)
    digests = np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(len(hashes), -1)
    return RowIndex(
        sample=np.repeat(samples, counts),
        token=tokens.astype(np.int32),
        sample_sha=np.repeat(digests[:, :SHA_BYTES], counts, axis=0),
        ids=None if ids is None else np.repeat(encode_ids(ids), counts),
    )


def check_activations(
    views: Mapping[str, NDArray[Any]],
    name_of: Callable[[int], str],
    advice: str = "the checkpoint is damaged or overflows: try --dtype fp32",
) -> None:
    """Check that all rows are finite.

    Args:
        views: Rows by view.
        name_of: Returns the sample of a row.
        advice: What may be wrong.

    Raises:
        ModelError: A row has NaN or infinity; the message names its view and its sample.
    """
    for view, values in views.items():
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(bad):
            raise ModelError(
                f"non-finite activations in view {view} for sample {name_of(int(bad[0]))}; {advice}"
            )


def samples_per_shard(rows_per_sample: float, row_bytes: int) -> int:
    """Return the samples of one shard, a power of two from 16 to 1024.

    They give as many rows as a shard of the store has.

    A killed run loses the shards on their way; more samples would be too much work.
    """
    fitting = WriteOptions().rows_of_shard(row_bytes) / max(1.0, rows_per_sample)
    power = 2 ** int(math.log2(max(1.0, fitting)))
    return min(_MAX_SAMPLES, max(_MIN_SAMPLES, power))


class Shard:
    """Some samples of a selection, and their rows while batches come in."""

    def __init__(self, number: int, start: int, stop: int, dims: Mapping[str, int]) -> None:
        self.number, self.start, self.stop = number, start, stop
        self._dims = dims
        self._samples: list[Sample] = []
        self._positions: list[Positions] = []

    def allocate(self, counts: NDArray[np.int64]) -> None:
        """Make place for so many rows of each sample."""
        self._counts = counts
        self._offsets = np.concatenate([[0], np.cumsum(counts)])
        self._missing = int(self._offsets[-1])
        self._arrays = {
            key: np.empty((self._missing, dim), dtype=np.float32) for key, dim in self._dims.items()
        }

    def add(self, sample: Sample, positions: Positions | None) -> None:
        """Note the next sample, and the positions that are kept of it."""
        self._samples.append(sample)
        if positions is not None:
            self._positions.append(positions)

    @property
    def is_full(self) -> bool:
        """True when all rows are there."""
        return self._missing == 0

    def place(self, batch: HostBatch, rows: "Mapping[str, Tensor]") -> int:
        """Put the rows of a batch where their samples belong; return their number."""
        offsets, members = self._offsets, batch.members
        if (self._counts[members] == 1).all():
            target = offsets[members]
        else:
            target = np.concatenate([np.arange(offsets[m], offsets[m + 1]) for m in members])
        for key, values in rows.items():
            self._arrays[key][target] = values.numpy()
        self._missing -= len(target)
        return len(target)

    def write(self, writer: StoreWriter, ordinals: NDArray[np.int64], *, with_ids: bool) -> None:
        """Write the full shard; ``ordinals`` places all samples in the data.

        Raises ModelError naming the view, the sample and the token of a value that is not finite.
        """
        index = row_index(
            ordinals[self.start : self.stop],
            self._counts,
            [sample.sha256 for sample in self._samples],
            self._positions or None,
            [sample.id for sample in self._samples] if with_ids else None,
        )
        try:
            writer.write_shard(self.number, self._arrays, index)
        except InputError:
            check_activations(self._arrays, self._name_of)
            raise
        self._arrays = {}

    def _name_of(self, row: int) -> str:
        member = int(np.searchsorted(self._offsets, row, side="right")) - 1
        name = str(self._samples[member].id)
        if not self._positions:
            return name
        return f"{name}, token {self._positions[member][row - self._offsets[member]]}"
