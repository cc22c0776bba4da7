"""Extraction: from a model and data to a store of embeddings, resumable and by many processes."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from repalign.core.compute import exact_float32
from repalign.exceptions import InputError
from repalign.store import StoreWriter, WriteOptions, open_store
from repalign.store.writing.background import BackgroundThread
from repalign.workflows.extract.device import Fetcher
from repalign.workflows.extract.feed import Event, HostBatch, ShardEnd, ShardStart, prefetch
from repalign.workflows.extract.job import ExtractJob, prepare_job
from repalign.workflows.extract.plan import read_rank, shard_bounds
from repalign.workflows.extract.settings import (
    ExtractProgress,
    ExtractResult,
    ExtractSettings,
    Speed,
)
from repalign.workflows.extract.shards import ShardBuffer

OnExtract = Callable[[ExtractProgress], None]


def extract(settings: ExtractSettings, on_progress: OnExtract | None = None) -> ExtractResult:
    """Extract embeddings into a store; the same call continues where an earlier one stopped.

    With the rank variables of torchrun or Slurm set, this process makes its share of the
    shards; whichever finishes last completes the store.

    Raises a RepalignError for anything that cannot be used, and for an unfinished store that
    was begun with other settings, naming what changed.
    """
    rank, n_ranks = read_rank()
    if settings.overwrite and n_ranks > 1:
        raise InputError("--overwrite with several processes: remove the old store first")
    job = prepare_job(settings)
    try:
        with exact_float32():
            difference = job.verify_device()
            writer = open_writer(job, n_ranks)
            if writer.is_complete:
                return result_of_job(job, writer, Tally(job, None), None)
            numbers = [
                number
                for number in range(rank, job.n_shards, n_ranks)
                if number not in writer.committed
            ]
            tally = Tally(job, on_progress, numbers)
            try:
                make_shards(job, writer, numbers, tally)
            except BaseException:
                writer.abandon()
                raise
            writer.close()
        writer.finish_when_whole()
        return result_of_job(job, writer, tally, difference)
    finally:
        job.pool.shutdown(wait=False, cancel_futures=True)


class Tally:
    """Counts what this process has done."""

    def __init__(
        self, job: ExtractJob, on_progress: OnExtract | None, numbers: Sequence[int] = ()
    ) -> None:
        bounds = [shard_bounds(n, len(job.selection), job.per_shard) for n in numbers]
        self.total = sum(stop - start for start, stop in bounds)
        self.samples = self.rows = self.n_units = self.n_cut = 0
        self._unit = job.feed.unit
        self._on_progress = on_progress
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since it was begun."""
        return time.perf_counter() - self._started

    def add(self, batch: HostBatch, rows: int) -> None:
        """Count a batch that is done, and tell."""
        self.samples += len(batch.members)
        self.rows += rows
        self.n_units += batch.n_units
        self.n_cut += batch.n_cut
        if self._on_progress is not None:
            speed = Speed(self.n_units, self._unit, self.seconds)
            self._on_progress(ExtractProgress(self.samples, self.total, self.rows, speed))


def open_writer(job: ExtractJob, n_writers: int) -> StoreWriter:
    """Begin the store of a job, or take it over; alone, or with other writers."""
    settings = job.settings
    options = WriteOptions(
        dtype=settings.store_dtype,
        licence=job.runner.model.origin.licence,
        environment=job.environment,
        n_shards=job.n_shards,
        n_writers=n_writers,
        expected_rows=max(1, int(len(job.selection) * job.rows_per_sample)),
    )
    return StoreWriter(
        settings.output,
        spec=job.spec,
        views=job.dims,
        options=options,
        overwrite=settings.overwrite,
        resume=not settings.overwrite,
    )


def make_shards(job: ExtractJob, writer: StoreWriter, numbers: Sequence[int], tally: Tally) -> None:
    """Compute and write the given shards."""
    behind = BackgroundThread("repalign-writer")
    fetcher = Fetcher()
    buffers: dict[int, ShardBuffer] = {}
    ends: dict[int, ShardEnd] = {}
    current = -1

    def settle(*, flush: bool) -> None:
        for (number, batch), rows in fetcher.ready(flush=flush):
            buffers[number].place(batch, rows)
            tally.add(batch, len(next(iter(rows.values()))))
        for number in [n for n in ends if buffers[n].is_full]:
            start, stop = shard_bounds(number, len(job.selection), job.per_shard)
            ordinals = job.selection.ordinals[start:stop]
            end, with_ids = ends.pop(number), job.settings.with_ids
            write = buffers.pop(number).write
            behind.put(partial(write, writer, end, ordinals, with_ids=with_ids))

    try:
        for event in prefetch(_events(job, numbers)):
            if isinstance(event, ShardStart):
                current = event.number
                buffers[current] = ShardBuffer(event, job.dims)
            elif isinstance(event, ShardEnd):
                ends[event.number] = event
            else:
                for batch, rows in job.runner.run_fitting(event):
                    fetcher.put((current, batch), rows)
            settle(flush=False)
        settle(flush=True)
    finally:
        behind.close()
        writer.flush()


def _events(job: ExtractJob, numbers: Sequence[int]) -> Iterator[Event]:
    for number in numbers:
        yield from job.feed.shard(number, *shard_bounds(number, len(job.selection), job.per_shard))


def result_of_job(
    job: ExtractJob, writer: StoreWriter, tally: Tally, difference: float | None
) -> ExtractResult:
    """Say what an extraction left behind."""
    summary: dict[str, Any] = {"n_rows": None, "fingerprint": None}
    if writer.is_complete:
        with open_store(writer.path) as store:
            summary = {"n_rows": len(store), "fingerprint": store.fingerprint}
    return ExtractResult(
        path=writer.path if writer.is_complete else writer.directory,
        is_complete=writer.is_complete,
        views=job.dims,
        rows_new=tally.rows,
        samples=len(job.selection),
        speed=Speed(tally.n_units, job.feed.unit, tally.seconds),
        device=str(job.runner.device),
        device_difference=difference,
        n_cut=tally.n_cut,
        warnings=_warnings(job, tally),
        **summary,
    )


def _warnings(job: ExtractJob, tally: Tally) -> tuple[str, ...]:
    found = []
    if tally.n_cut:
        found.append(
            f"{tally.n_cut:,} of {tally.samples:,} samples are longer than {job.longest} and were "
            "cut on the right: their rows do not know the rest"
        )
    if job.settings.dtype != "fp32":
        found.append(
            f"{job.settings.dtype} rows depend on the batches they were computed in (about 3e-2 "
            "of a unit); compare only stores made with the same settings"
        )
    if job.runner.device.type != "cpu" and job.settings.batch_size is None:
        found.append(
            "the batch size was found by trial; give --batch-size for rows that repeat to the bit"
        )
    if len(job.selection) < max(job.dims.values()):
        found.append(
            f"{len(job.selection)} samples are fewer than the columns of a view; a comparison of "
            "such stores overfits"
        )
    return tuple(found)
