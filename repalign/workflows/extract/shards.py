"""From rows that come batch by batch to whole shards in data order."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError, ModelError
from repalign.store import StoreWriter
from repalign.store.joining.index import POOLED, SHA_BYTES, RowIndex, encode_ids
from repalign.workflows.extract.feed import HostBatch, ShardEnd, ShardStart

if TYPE_CHECKING:
    from torch import Tensor


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

    def index(self, end: ShardEnd, ordinals: NDArray[np.int64], *, with_ids: bool) -> RowIndex:
        """Identity of every row; ``ordinals`` are the places of the samples in their data."""
        tokens = (
            np.full(self.n_rows, POOLED, dtype=np.int32)
            if end.positions is None
            else np.concatenate(end.positions).astype(np.int32)
        )
        digests = np.frombuffer(b"".join(end.hashes), dtype=np.uint8).reshape(len(end.hashes), -1)
        return RowIndex(
            sample=np.repeat(ordinals, self._counts),
            token=tokens,
            sample_sha=np.repeat(digests[:, :SHA_BYTES], self._counts, axis=0),
            ids=np.repeat(encode_ids(end.ids), self._counts) if with_ids else None,
        )

    def _first_missing(self, end: ShardEnd) -> str | None:
        """Name the view, the sample and the token of the first row with NaN or infinity."""
        for key, values in self.arrays.items():
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if not len(bad):
                continue
            row = int(bad[0])
            member = int(np.searchsorted(self._offsets, row, side="right")) - 1
            token = ""
            if end.positions is not None:
                token = f", token {end.positions[member][row - self._offsets[member]]}"
            return f"view {key} for sample {end.ids[member]}{token}"
        return None

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
            index = self.index(end, ordinals, with_ids=with_ids)
            writer.write_shard(self.number, self.arrays, index)
        except InputError as error:
            place = self._first_missing(end)
            if place is None:
                raise
            raise ModelError(
                f"non-finite activations in {place}; the checkpoint is damaged or overflows: try "
                "--dtype fp32"
            ) from error
