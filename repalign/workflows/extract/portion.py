"""Some shards of an extraction, one after the other, for whoever shares them out."""

from dataclasses import dataclass, replace
from typing import Self

from repalign.core.compute import exact_float32
from repalign.store.format.directory import committed_numbers
from repalign.workflows.extract.job import prepare_job
from repalign.workflows.extract.plan import shard_bounds
from repalign.workflows.extract.run import Tally, make_shards, open_writer, result_of_job
from repalign.workflows.extract.settings import ExtractResult, ExtractSettings

# The lock of a store that several write: how many they are does not matter.
SEVERAL = 2


@dataclass(frozen=True)
class ShardPlan:
    """What there is to do of an extraction.

    Attributes:
        sizes: Samples of every shard.
        missing: Shards that nobody has committed yet.
        unit: What its speed counts: tokens, images, sounds.
        is_complete: Whether the store is finished.
        device_difference: As in ``ExtractResult``, where that was asked for.
    """

    sizes: tuple[int, ...]
    missing: tuple[int, ...]
    unit: str
    is_complete: bool
    device_difference: float | None = None


@dataclass(frozen=True)
class Made:
    """What came of one or several shards; all zeros where they were there already."""

    samples: int = 0
    rows: int = 0
    n_units: int = 0
    n_cut: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Made") -> "Made":
        return Made(
            self.samples + other.samples,
            self.rows + other.rows,
            self.n_units + other.n_units,
            self.n_cut + other.n_cut,
            self.seconds + other.seconds,
        )


class Portion:
    """A model loaded and a store opened, to make single shards of it; others make the rest.

    Raises:
        RepalignError: The model, the data or the store cannot be used.
    """

    def __init__(self, settings: ExtractSettings) -> None:
        self.settings = settings
        self._job = prepare_job(settings)
        self._writer = open_writer(self._job, SEVERAL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def plan(self) -> ShardPlan:
        """Say what there is to do, after checking the device where that was asked for."""
        job, n_samples = self._job, len(self._job.selection)
        bounds = [shard_bounds(n, n_samples, job.per_shard) for n in range(job.n_shards)]
        present = set(self._writer.committed)
        with exact_float32():
            difference = job.verify_device()
        return ShardPlan(
            sizes=tuple(stop - start for start, stop in bounds),
            missing=tuple(number for number in range(job.n_shards) if number not in present),
            unit=job.feed.unit,
            is_complete=self._writer.is_complete,
            device_difference=difference,
        )

    def make(self, number: int) -> Made:
        """Make and commit a shard, unless somebody committed it who was lost afterwards."""
        if number in committed_numbers(self._writer.directory):
            return Made()
        tally = Tally(self._job, None, [number])
        with exact_float32():
            make_shards(self._job, self._writer, [number], tally)
        return Made(tally.samples, tally.rows, tally.n_units, tally.n_cut, tally.seconds)

    def finish(self, made: Made, difference: float | None) -> ExtractResult:
        """Complete the store, all shards of which are there; ``made`` is what all made of it."""
        if not self._writer.is_complete:
            self._writer.finish_when_whole()
        tally = Tally(self._job, None)
        tally.samples, tally.rows = made.samples, made.rows
        tally.n_units, tally.n_cut = made.n_units, made.n_cut
        found = result_of_job(self._job, self._writer, tally, difference)
        return replace(found, speed=replace(found.speed, seconds=made.seconds))

    def close(self) -> None:
        """Let the store and the model go."""
        try:
            self._writer.close()
        finally:
            self._job.pool.shutdown(wait=False, cancel_futures=True)
