"""The measures of similarity: the one list that settings, help, tables, documents and tests follow.

It is light, so that the command line can read it: an entry computes its value by what
``repalign.core.similarity.evidence`` offers, which is imported when there is something to compute.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import pi
from typing import TYPE_CHECKING, Literal

from repalign.core.inference.ranges import SIGNED, UNIT, Range
from repalign.exceptions import InputError

if TYPE_CHECKING:
    from repalign.core.similarity.evidence import Evidence

Better = Literal["↑", "↓"]
Change = Literal["translation", "scale", "rotation", "signed permutation", "column scale", "linear"]
# Moments alone; rows; the distances of all pairs of rows; all of these at once, for their ranks.
Reads = Literal["moments", "rows", "distances", "distance ranks"]

RIGID: tuple[Change, ...] = ("translation", "scale", "rotation", "signed permutation")
COLUMNS: tuple[Change, ...] = ("translation", "scale", "signed permutation", "column scale")
LINEAR: tuple[Change, ...] = (*RIGID, "column scale", "linear")
CHANGES: tuple[Change, ...] = LINEAR
"""What can be done to one side alone; each measure says which of these leave it as it is."""


@dataclass(frozen=True)
class Measure:
    """One measure of how similar two representations are.

    Attributes:
        name: As it is asked for; with ``size`` a number may follow, as in ``svcca-16``.
        title: For headings.
        better: Whether higher (↑) or lower (↓) is closer.
        means: What it is, in a line.
        compute: Makes the value from rows that fit and rows that judge.
        source: What may be done to the source without changing the value.
        target: The same of the target; the source's unless said.
        reads: What it needs.
        is_symmetric: Both directions give the same value in-sample.
        fits: It fits something to the pairing, which held out is judged on other rows.
        size: How many directions or neighbours are taken unless the name says it; None where
            there is no such number.
        within: The values that it can take in-sample.
        held_out_within: Those on rows that fitted nothing; as in-sample unless said.
        has_in_sample_interval: Intervals by half-samples hold their claim.
    """

    name: str
    title: str
    better: Better
    means: str
    compute: "Callable[[Evidence], float]"
    source: tuple[Change, ...]
    target: tuple[Change, ...] | None = None
    reads: Reads = "moments"
    is_symmetric: bool = True
    fits: bool = False
    size: int | None = None
    within: Range = UNIT
    held_out_within: Range | None = None
    has_in_sample_interval: bool = True

    def __reduce__(self) -> "tuple[Callable[[str], Measure], tuple[str]]":
        return measure_called, (self.name,)  # sent to other processes by name

    def range_in(self, split: str) -> Range:
        """Return the values that it can take in a split."""
        is_other = split != "in-sample" and self.held_out_within is not None
        return self.held_out_within if is_other else self.within  # type: ignore[return-value]

    @property
    def heading(self) -> str:
        """The title with its direction, for tables."""
        return f"{self.title} {self.better}"

    def value(self, evidence: "Evidence") -> float:
        """Return the value; NaN where these rows are too few to define it."""
        return self.compute(evidence if self.size is None else evidence.of_size(self.size))

    @property
    def target_changes(self) -> tuple[Change, ...]:
        """What may be done to the target without changing the value."""
        return self.source if self.target is None else self.target

    @property
    def sign(self) -> float:
        """1 where higher is closer, −1 where lower is."""
        return 1.0 if self.better == "↑" else -1.0


MEASURES = (
    Measure(
        "mean-cca",
        "CCA",
        "↑",
        "mean canonical correlation",
        lambda pair: pair.canonical().mean,
        LINEAR,
        fits=True,
        held_out_within=SIGNED,
    ),
    Measure(
        "svcca",
        "SVCCA",
        "↑",
        "mean canonical correlation of the leading principal directions",
        lambda pair: pair.canonical(pair.size).mean,
        RIGID,
        fits=True,
        size=20,
        held_out_within=SIGNED,
        # the leading directions differ between half-samples: held in .84 to .92 (calibration.md)
        has_in_sample_interval=False,
    ),
    Measure(
        "pwcca",
        "PWCCA",
        "↑",
        "canonical correlations weighted by what they explain of the source",
        lambda pair: pair.canonical().projection_weighted,
        ("translation", "scale", "signed permutation"),
        LINEAR,
        is_symmetric=False,
        fits=True,
        held_out_within=SIGNED,
    ),
    Measure(
        "linear-cka",
        "CKA",
        "↑",
        "linear centred kernel alignment, biased upwards for few rows",
        lambda pair: pair.linear_cka(),
        RIGID,
    ),
    Measure(
        "unbiased-cka",
        "CKA unb.",
        "↑",
        "the same with the unbiased estimator: about 0 of unrelated rows, however few",
        lambda pair: pair.unbiased_cka(),
        RIGID,
        reads="rows",
        within=SIGNED,
    ),
    Measure(
        "pooled-r2",
        "R² pooled",
        "↑",
        "share of the target's variance that least squares explains",
        lambda pair: pair.r_squared().pooled,
        LINEAR,
        RIGID,
        is_symmetric=False,
        fits=True,
        held_out_within=Range(high=1.0),
    ),
    Measure(
        "mean-r2",
        "R² mean",
        "↑",
        "the same for each target column, and the mean of these",
        lambda pair: pair.r_squared().mean,
        LINEAR,
        COLUMNS,
        is_symmetric=False,
        fits=True,
        held_out_within=Range(high=1.0),
    ),
    Measure(
        "mutual-knn",
        "k-NN",
        "↑",
        "mean share of a row's nearest neighbours that both sides have in common",
        lambda pair: pair.mutual_neighbours(pair.size),
        RIGID,
        reads="rows",
        size=10,
    ),
    Measure(
        "rsa-pearson",
        "RSA r",
        "↑",
        "correlation of the distances between rows on both sides",
        lambda pair: pair.distance_correlation("pearson"),
        RIGID,
        reads="distances",
        within=SIGNED,
    ),
    Measure(
        "rsa-spearman",
        "RSA ρ",
        "↑",
        "rank correlation of the distances between rows on both sides",
        lambda pair: pair.distance_correlation("spearman"),
        RIGID,
        reads="distance ranks",
        within=SIGNED,
    ),
    Measure(
        "procrustes-angle",
        "Angle",
        "↓",
        "angle between the two, in radians, after the best rotation",
        lambda pair: pair.procrustes_angle(),
        RIGID,
        fits=True,
        within=Range(0.0, pi / 2),
        held_out_within=Range(0.0, pi),
    ),
    Measure(
        "mcc-pearson",
        "MCC r",
        "↑",
        "mean correlation of columns matched one to one, with signs",
        lambda pair: pair.matched_correlation("pearson"),
        COLUMNS,
        fits=True,
        held_out_within=SIGNED,
    ),
    Measure(
        "mcc-spearman",
        "MCC ρ",
        "↑",
        "the same with the correlation of ranks",
        lambda pair: pair.matched_correlation("spearman"),
        COLUMNS,
        reads="rows",
        fits=True,
        held_out_within=SIGNED,
    ),
)
"""Every measure, in the order of the columns of a table."""

ALL_MEASURES = tuple(each.name for each in MEASURES)
EVERY = "all"


def measure_called(name: str) -> Measure:
    """Return the measure of a name such as ``linear-cka`` or ``svcca-16``.

    Raises:
        InputError: There is no such measure, or its number is none.
    """
    for each in MEASURES:
        if name == each.name:
            return each if each.size is None else _sized(each, each.size)
        found = re.fullmatch(rf"{re.escape(each.name)}-([1-9][0-9]{{0,8}})", name)
        if found is not None and each.size is not None:
            return _sized(each, int(found[1]))
    raise InputError(f"measures: got {name}, expected some of: {names_told()}, or {EVERY}")


def measures_called(names: Iterable[str]) -> tuple[Measure, ...]:
    """Return the measures of some names, each once; ``all`` stands for every one.

    Raises:
        InputError: As ``measure_called``.
    """
    told = [one for name in names for one in (ALL_MEASURES if name == EVERY else (name,))]
    found = [measure_called(name) for name in told]
    return tuple({each.name: each for each in found}.values())


def names_told() -> str:
    """Return the names for people: where a number may follow, with the one that is meant."""
    return ", ".join(
        each.name if each.size is None else f"{each.name}-K ({each.name}: {each.size})"
        for each in MEASURES
    )


def _sized(measure: Measure, size: int) -> Measure:
    return replace(
        measure,
        name=f"{measure.name}-{size}",
        title=f"{measure.title} {size}",
        size=size,
    )
