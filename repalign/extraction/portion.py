"""Single shards of an extraction, for an engine that distributes them."""

from dataclasses import dataclass, fields, replace
from typing import Self

from repalign.extraction.job import prepare_job
from repalign.extraction.run import Tally, make_shards, open_writer, result_of_job
from repalign.extraction.settings import ExtractResult, ExtractSettings
from repalign.store.directory import committed_numbers

# The lock of a store with several writers: how many they are does not matter.
SEVERAL = 2


@dataclass(frozen=True)
class ShardPlan:
    """The work of an extraction.

    Attributes:
        sizes: Samples of every shard.
        missing: Shards that are not committed yet.
        unit: What its speed counts: tokens, images, sounds.
        is_complete: Whether the store is finished.
    """

    sizes: tuple[int, ...]
    missing: tuple[int, ...]
    unit: str
    is_complete: bool


@dataclass(frozen=True)
class Made:
    """Counts of one or several shards; all zeros where they were there already."""

    samples: int = 0
    rows: int = 0
    n_units: int = 0
    n_cut: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Made") -> "Made":
        return Made(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class Portion:
    """A loaded model and an open store, to make single shards.

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
        """Return the work that there is."""
        job, present = self._job, set(self._writer.committed)
        shards = [job.shard(number) for number in range(job.n_shards)]
        return ShardPlan(
            sizes=tuple(shard.stop - shard.start for shard in shards),
            missing=tuple(shard.number for shard in shards if shard.number not in present),
            unit=job.feed.inputs.unit,
            is_complete=self._writer.is_complete,
        )

    def make(self, number: int) -> Made:
        """Make and commit a shard, unless a lost worker committed it."""
        if number in committed_numbers(self._writer.directory):
            return Made()
        tally = Tally(self._job, None, [number])
        make_shards(self._job, self._writer, [number], tally)
        return Made(tally.samples, tally.rows, tally.n_units, tally.n_cut, tally.seconds)

    def finish(self, counts: Made) -> ExtractResult:
        """Complete the store; ``counts`` are those of all shards."""
        self._writer.finish()
        tally = Tally(self._job, None)
        tally.samples, tally.rows = counts.samples, counts.rows
        tally.n_units, tally.n_cut = counts.n_units, counts.n_cut
        result = result_of_job(self._job, self._writer, tally)
        return replace(result, speed=replace(result.speed, seconds=counts.seconds))

    def close(self) -> None:
        """Close the store and the model."""
        try:
            self._writer.close()
        finally:
            self._job.close()
