"""From rows that come batch by batch to whole shards in data order."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError, ModelError
from repalign.store import StoreWriter
from repalign.store.joining.index import POOLED, SHA_BYTES, RowIndex, encode_ids
from repalign.workflows.extract.feed import HostBatch, ShardEnd, ShardStart

if TYPE_CHECKING:
    from torch import Tensor


def row_index(
    samples: NDArray[np.int64],
    counts: Sequence[int] | NDArray[np.int64],
    hashes: Sequence[bytes],
    positions: Sequence[NDArray[np.int64]] | None,
    ids: Sequence[str] | None,
) -> RowIndex:
    """Identity of every row: ``samples`` are their places in the data, ``counts`` their rows."""
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
        name_of: Returns what a row is of.
        advice: What may be wrong.

    Raises:
        ModelError: A row has NaN or infinity; the message names its view and what it is of.
    """
    for view, values in views.items():
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(bad):
            raise ModelError(
                f"non-finite activations in view {view} for sample {name_of(int(bad[0]))}; {advice}"
            )


class ShardBuffer:
    """The rows of one shard while its batches come in, in any order."""

    def __init__(self, start: ShardStart, dims: Mapping[str, int]) -> None:
        self.number = start.number
        self._counts = start.rows_per_sample
        self._offsets = np.concatenate([[0], np.cumsum(start.rows_per_sample)])
        self.n_rows = int(self._offsets[-1])
        self._missing = self.n_rows
        self.arrays = {
            key: np.empty((self.n_rows, dim), dtype=np.float32) for key, dim in dims.items()
        }

    @property
    def is_full(self) -> bool:
        """Whether all rows are there."""
        return self._missing == 0

    def place(self, batch: HostBatch, rows: Mapping[str, "Tensor"]) -> None:
        """Put the rows of a batch where their samples belong."""
        counts = self._counts[batch.members]
        if (counts == 1).all():
            target = self._offsets[batch.members]
        else:
            spans = [np.arange(self._offsets[m], self._offsets[m + 1]) for m in batch.members]
            target = np.concatenate(spans)
        for key, values in rows.items():
            self.arrays[key][target] = values.numpy()
        self._missing -= len(target)

    def _name_of(self, row: int, end: ShardEnd) -> str:
        member = int(np.searchsorted(self._offsets, row, side="right")) - 1
        name, positions = str(end.ids[member]), end.positions
        if positions is None:
            return name
        return f"{name}, token {positions[member][row - self._offsets[member]]}"

    def write(
        self,
        writer: StoreWriter,
        end: ShardEnd,
        ordinals: NDArray[np.int64],
        *,
        with_ids: bool,
    ) -> None:
        """Write the full shard; the store looks for NaN and infinity, and we say whose they are.

        Raises ModelError naming the view, the sample and the token.
        """
        try:
            ids = end.ids if with_ids else None
            index = row_index(ordinals, self._counts, end.hashes, end.positions, ids)
            writer.write_shard(self.number, self.arrays, index)
        except InputError:
            check_activations(self.arrays, lambda row: self._name_of(row, end))
            raise
