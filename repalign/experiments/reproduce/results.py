"""What came out of an experiment: every number by seed, and means with intervals over seeds."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from repalign.experiments.reproduce.experiment import Experiment, Outcome
from repalign.experiments.reproduce.given_data import GivenData

VERSIONED = ("repalign", "numpy", "scipy", "torch")
LEVEL = 0.95


@dataclass(frozen=True)
class Summary:
    """A measure of one case over seeds; the interval is Student's for the mean, at 95 %.

    ``mean`` and the interval are NaN where no seed, or only one, gave a number.
    """

    case: str
    measure: str
    at: float | None
    mean: float
    low: float
    high: float
    values: tuple[float, ...]
    published: float | str | None

    def to_record(self) -> dict[str, Any]:
        """Return a row of the table."""
        finite = [value for value in self.values if math.isfinite(value)]
        return {
            "case": self.case,
            "measure": self.measure,
            "at": self.at,
            "mean": self.mean,
            "ci_low": self.low,
            "ci_high": self.high,
            "lowest": min(finite, default=None),
            "highest": max(finite, default=None),
            "seeds": len(finite),
            "published": self.published,
        }


@dataclass(frozen=True)
class Reproduction:
    """All outcomes of an experiment, by seed and case."""

    experiment: Experiment
    preset: str
    seeds: tuple[int, ...]
    outcomes: tuple[Outcome, ...]
    data: GivenData | None = None

    @property
    def seconds(self) -> float:
        """Processor seconds of all outcomes, also those of earlier runs."""
        return sum(outcome.seconds for outcome in self.outcomes)

    def to_records(self) -> list[dict[str, Any]]:
        """Return every number, one a row: the case with its settings, seed, measure, value."""
        return [
            {"experiment": self.experiment.name, "preset": self.preset}
            | {"case" if name == "name" else name: value for name, value in asdict(o.case).items()}
            | {"seed": o.seed, "measure": m.measure, "at": m.at, "value": m.value}
            for o in self.outcomes
            for m in o.measured
        ]

    def summaries(self) -> tuple[Summary, ...]:
        """Return the means over seeds, in the order of the cases and what they measured."""
        own = ("", "" if self.data is None else self.data.name)
        known = {
            (each.case, each.measure): each.value
            for each in self.experiment.published
            if each.data in own
        }
        groups: dict[tuple[str, str, float | None], list[float]] = {}
        order = {case: number for number, case in enumerate(self.cases)}
        every = (*self.selected, *self.outcomes)
        for outcome in sorted(every, key=lambda each: order[each.case.name]):
            for each in outcome.measured:
                key = (outcome.case.name, each.measure, each.at)
                groups.setdefault(key, []).append(each.value)
        return tuple(
            Summary(case, measure, at, *interval(values), tuple(values), known.get((case, measure)))
            for (case, measure, at), values in groups.items()
        )

    @property
    def cases(self) -> tuple[str, ...]:
        """Names of the cases in order, those made from others first."""
        made = dict.fromkeys(each.case.name for each in self.selected)
        measured = (case.name for case in self.experiment.preset(self.preset).cases)
        return (*made, *measured)

    @cached_property
    def selected(self) -> tuple[Outcome, ...]:
        """Outcomes of cases that are made from those that were measured."""
        select = self.experiment.select
        return () if select is None else tuple(select(self.outcomes))

    def results(self) -> tuple[Summary, ...]:
        """Return the summaries without those that are points of a curve."""
        return tuple(each for each in self.summaries() if each.at is None)

    def find(self, case: str, measure: str) -> Summary:
        """Return one result."""
        for each in self.results():
            if (each.case, each.measure) == (case, measure):
                return each
        raise KeyError((case, measure))

    def curve(self, case: str, measure: str) -> tuple[Summary, ...]:
        """Return the points of a curve by their place."""
        points = [
            each
            for each in self.summaries()
            if (each.case, each.measure) == (case, measure) and each.at is not None
        ]
        return tuple(sorted(points, key=lambda each: each.at or 0.0))

    def sentences(self) -> tuple[str, ...]:
        """Say what the numbers mean, and how the set-up differs from the published one."""
        data = () if self.data is None else (f"Data: {self.data.name}.",)
        return (*self.experiment.sentences(self), *data, f"Set-up: {self.experiment.differs}")

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "experiment": self.experiment.name,
            "paper": self.experiment.paper,
            "shows": self.experiment.shows,
            "differs": self.experiment.differs,
            "preset": self.preset,
            "data": self.data and {"name": self.data.name, "digest": self.data.digest},
            "seeds": list(self.seeds),
            "processor_seconds": self.seconds,
            "versions": {name: version(name) for name in VERSIONED},
            "summary": [each.to_record() for each in self.summaries()],
            "sentences": list(self.sentences()),
            "records": self.to_records(),
        }


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and Student's 95 % interval of it; NaN where there are too few numbers."""
    finite = np.asarray([value for value in values if math.isfinite(value)])
    if finite.size == 0:
        return math.nan, math.nan, math.nan
    mean = float(finite.mean())
    if finite.size == 1:
        return mean, math.nan, math.nan
    from scipy.stats import t

    half = float(t.ppf((1 + LEVEL) / 2, finite.size - 1) * finite.std(ddof=1) / finite.size**0.5)
    return mean, mean - half, mean + half
