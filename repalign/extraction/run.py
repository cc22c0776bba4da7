"""Extraction: from a model and data to a store of embeddings."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

from repalign.core.device import exact_float32
from repalign.exceptions import InputError
from repalign.extraction.batches import HostBatch, prefetch
from repalign.extraction.device import Rows, rows_on_host
from repalign.extraction.job import ExtractJob, prepare_job
from repalign.extraction.plan import read_rank
from repalign.extraction.settings import (
    ExtractProgress,
    ExtractResult,
    ExtractSettings,
    Speed,
)
from repalign.extraction.shards import Shard
from repalign.store import StoreWriter, WriteOptions, open_store

OnExtract = Callable[[ExtractProgress], None]


def extract(settings: ExtractSettings, on_progress: OnExtract | None = None) -> ExtractResult:
    """Extract embeddings into a store; the same call resumes an earlier one.

    With the rank variables of torchrun or Slurm set, this process makes its share of the
    shards; whichever finishes last completes the store.

    Raises a RepalignError for anything that cannot be used, and for an unfinished store that
    was begun with other settings, naming what changed.
    """
    rank, n_ranks = read_rank()
    if settings.overwrite and n_ranks > 1:
        raise InputError("--overwrite with several processes: remove the old store first")
    with closing(prepare_job(settings)) as job:
        writer = open_writer(job, n_ranks)
        if writer.is_complete:
            return result_of_job(job, writer, Tally(job, None))
        numbers = [
            number
            for number in range(rank, job.n_shards, n_ranks)
            if number not in writer.committed
        ]
        tally = Tally(job, on_progress, numbers)
        with writer:
            make_shards(job, writer, numbers, tally)
        writer.finish()
        return result_of_job(job, writer, tally)


class Tally:
    """Counts what this process has done."""

    def __init__(
        self, job: ExtractJob, on_progress: OnExtract | None, numbers: Sequence[int] = ()
    ) -> None:
        shards = [job.shard(number) for number in numbers]
        self.total = sum(shard.stop - shard.start for shard in shards)
        self.samples = self.rows = self.n_units = self.n_cut = 0
        self._unit = job.feed.inputs.unit
        self._on_progress = on_progress
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since it was begun."""
        return time.perf_counter() - self._started

    def add(self, batch: HostBatch, rows: int) -> None:
        """Count a batch that is done, and report progress."""
        self.samples += len(batch.members)
        self.rows += rows
        self.n_units += batch.n_units
        self.n_cut += batch.n_cut
        if self._on_progress is not None:
            speed = Speed(self.n_units, self._unit, self.seconds)
            self._on_progress(ExtractProgress(self.samples, self.total, self.rows, speed))


def open_writer(job: ExtractJob, n_writers: int) -> StoreWriter:
    """Begin the store of a job, or resume it."""
    settings = job.settings
    options = WriteOptions(
        dtype=settings.store_dtype,
        licence=job.runner.encoder.origin.licence,
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


@exact_float32()
def make_shards(job: ExtractJob, writer: StoreWriter, numbers: Sequence[int], tally: Tally) -> None:
    """Compute the given shards; a thread writes those that are whole."""
    ordinals, with_ids = job.selection.ordinals, job.settings.with_ids
    writes: deque[Future[None]] = deque()
    with (
        ThreadPoolExecutor(1, "repalign-writer") as thread,
        closing(prefetch(job.feed.batches([job.shard(number) for number in numbers]))) as batches,
    ):
        try:
            for (shard, batch), rows in rows_on_host(_run(job, batches)):
                tally.add(batch, shard.place(batch, rows))
                if shard.is_full:
                    if len(writes) > 1:
                        writes.popleft().result()
                    writes.append(thread.submit(shard.write, writer, ordinals, with_ids=with_ids))
        finally:
            while writes:
                writes.popleft().result()
            writer.flush()


def _run(
    job: ExtractJob, batches: Iterator[tuple[Shard, HostBatch]]
) -> Iterator[tuple[tuple[Shard, HostBatch], Rows]]:
    for shard, batch in batches:
        for part, rows in job.runner.run_fitting(batch):
            yield (shard, part), rows


def result_of_job(job: ExtractJob, writer: StoreWriter, tally: Tally) -> ExtractResult:
    """Return the result of an extraction."""
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
        speed=Speed(tally.n_units, job.feed.inputs.unit, tally.seconds),
        device=str(job.runner.device),
        n_cut=tally.n_cut,
        warnings=_warnings(job, tally),
        **summary,
    )


def _warnings(job: ExtractJob, tally: Tally) -> tuple[str, ...]:
    warnings = []
    if tally.n_cut:
        warnings.append(
            f"{tally.n_cut:,} of {tally.samples:,} samples are longer than "
            f"{job.feed.inputs.longest} and were cut on the right: their rows do not depend on "
            "what follows"
        )
    if job.settings.dtype != "fp32":
        warnings.append(
            f"{job.settings.dtype} rows depend on the batches they were computed in (about 3e-2 "
            "of a unit); compare only stores made with the same settings"
        )
    if job.runner.device.type != "cpu" and job.settings.batch_size is None:
        warnings.append(
            "the size of batches depends on the memory of the device; give --batch-size for rows "
            "that repeat to the bit"
        )
    if len(job.selection) < max(job.dims.values()):
        warnings.append(
            f"{len(job.selection)} samples are fewer than the columns of a view; a comparison of "
            "such stores overfits"
        )
    return tuple(warnings)
