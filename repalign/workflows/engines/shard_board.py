"""What is left to do of one or many extractions, and who should do what next.

Work is given so that a process loads as few models as it can: shards of the model that it has,
then a model that nobody has begun, then a share of the model with most shards left.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from repalign.exceptions import RepalignError
from repalign.workflows.extract.portion import Made, ShardPlan
from repalign.workflows.extract.settings import ExtractResult, ExtractSettings

# How often a piece of work is given again after the process that did it was lost.
RETRIES = 3


@dataclass(frozen=True)
class Piece:
    """One call of a worker: plan a job, make a shard of it, or finish it."""

    job: int
    kind: Literal["plan", "shard", "finish"]
    number: int = 0


@dataclass
class Job:
    """How far one extraction is."""

    settings: ExtractSettings
    plan: ShardPlan | None = None
    planners: int = 0
    waiting: list[int] = field(default_factory=list)
    at_work: int = 0
    made: Made = field(default_factory=Made)
    is_finishing: bool = False
    result: ExtractResult | None = None
    failure: tuple[type[RepalignError], str] | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return self.result is not None or self.failure is not None

    @property
    def samples_total(self) -> int:
        """Samples of the shards that were missing at the start, where that is known."""
        return 0 if self.plan is None else sum(self.plan.sizes[n] for n in self.plan.missing)


class ShardBoard:
    """All extractions of a run, and how often each piece of work was lost."""

    def __init__(self, wanted: Sequence[ExtractSettings]) -> None:
        self.jobs = [Job(settings) for settings in wanted]
        self._lost: dict[Piece, int] = {}

    @property
    def is_over(self) -> bool:
        """Whether every extraction is done or has failed."""
        return all(job.is_over for job in self.jobs)

    def give(self, has: int | None) -> Piece | None:
        """Return the next piece for a worker that has loaded the model of job ``has``."""
        order = sorted(
            (number for number, job in enumerate(self.jobs) if not job.is_over),
            key=lambda number: (number != has, -len(self.jobs[number].waiting)),
        )
        for piece in self._pieces(order, has):
            self._begin(piece)
            return piece
        return None

    def _pieces(self, order: Sequence[int], has: int | None) -> "list[Piece]":
        jobs = self.jobs
        own = [n for n in order if n == has]
        found = [Piece(n, "shard", jobs[n].waiting[-1]) for n in own if jobs[n].waiting]
        found += [Piece(n, "finish") for n in order if self._is_made(jobs[n])]
        found += [Piece(n, "plan") for n in sorted(order) if _is_new(jobs[n])]
        found += [Piece(n, "shard", jobs[n].waiting[-1]) for n in order if jobs[n].waiting]
        # With nothing better to do, be ready when the shards of a model are known.
        found += [Piece(n, "plan") for n in order if jobs[n].plan is None and n != has]
        return found

    @staticmethod
    def _is_made(job: Job) -> bool:
        is_known = job.plan is not None and not job.is_finishing
        return is_known and not job.waiting and not job.at_work

    def _begin(self, piece: Piece) -> None:
        job = self.jobs[piece.job]
        if piece.kind == "plan":
            job.planners += 1
        elif piece.kind == "shard":
            job.waiting.remove(piece.number)
            job.at_work += 1
        else:
            job.is_finishing = True

    def planned(self, piece: Piece, plan: ShardPlan) -> None:
        """Take the plan of a job; only the first counts."""
        job = self.jobs[piece.job]
        job.planners -= 1
        if job.plan is None:
            job.plan = plan
            job.waiting = [] if plan.is_complete else list(plan.missing)[::-1]

    def made(self, piece: Piece, made: Made) -> None:
        """Take what came of a shard."""
        job = self.jobs[piece.job]
        job.at_work -= 1
        job.made += made

    def finished(self, piece: Piece, result: ExtractResult) -> None:
        """Take the result of a job."""
        self.jobs[piece.job].result = result

    def failed(self, piece: Piece, failure: tuple[type[RepalignError], str]) -> None:
        """Give a job up for a reason that another try would not change; the first counts."""
        job = self.jobs[piece.job]
        job.failure = job.failure or failure
        job.waiting = []

    def lost(self, piece: Piece) -> bool:
        """Put back the work of a process that was lost; False when it was lost too often."""
        job = self.jobs[piece.job]
        if piece.kind == "plan":
            job.planners -= 1
        elif piece.kind == "shard":
            job.at_work -= 1
            job.waiting.append(piece.number)
        else:
            job.is_finishing = False
        self._lost[piece] = self._lost.get(piece, 0) + 1
        return self._lost[piece] <= RETRIES


def _is_new(job: Job) -> bool:
    return job.plan is None and job.planners == 0
