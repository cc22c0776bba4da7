"""From rows that come batch by batch to whole shards in data order, checked and written."""

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import ModelError
from repalign.store import StoreWriter
from repalign.store.joining.index import POOLED, SHA_BYTES, RowIndex, encode_ids
from repalign.workflows.extract.feed import HostBatch, ShardEnd, ShardStart

if TYPE_CHECKING:
    from torch import Tensor

_MAX_WAITING = 2


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

    def check_finite(self, end: ShardEnd) -> None:
        """Refuse NaN and infinity.

        Raises ModelError naming the view, the sample and the token.
        """
        for key, values in self.arrays.items():
            if np.isfinite(values).all():
                continue
            row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            member = int(np.searchsorted(self._offsets, row, side="right")) - 1
            token = ""
            if end.positions is not None:
                token = f", token {end.positions[member][row - self._offsets[member]]}"
            raise ModelError(
                f"non-finite activations in view {key} for sample {end.ids[member]}{token}; "
                "the checkpoint is damaged or overflows: try --dtype fp32"
            )


class ShardSink:
    """Writes full shards on one thread, at most two waiting."""

    def __init__(self, writer: StoreWriter, *, with_ids: bool) -> None:
        self._writer = writer
        self._with_ids = with_ids
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="repalign-writer")
        self._waiting: deque[Future[None]] = deque()

    def put(self, buffer: ShardBuffer, end: ShardEnd, ordinals: NDArray[np.int64]) -> None:
        """Hand over a full shard; waits while two others are on their way."""
        while len(self._waiting) >= _MAX_WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(self._write, buffer, end, ordinals))

    def close(self) -> None:
        """Wait until everything is committed.

        Raises what writing raised.
        """
        try:
            while self._waiting:
                self._waiting.popleft().result()
            self._writer.flush()
        finally:
            self._pool.shutdown(wait=True)

    def _write(self, buffer: ShardBuffer, end: ShardEnd, ordinals: NDArray[np.int64]) -> None:
        buffer.check_finite(end)
        index = buffer.index(end, ordinals, with_ids=self._with_ids)
        self._writer.write_shard(buffer.number, buffer.arrays, index)
