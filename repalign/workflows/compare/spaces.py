"""What is computed of one space alone: its moments, and its ICA on some of its rows.

Both are units of work, done once for all pairs that the space is in. Seeds follow from content.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.core.ica.components import IcaFit
from repalign.core.ica.starts import (
    AGREEMENT,
    FIRST_STARTS,
    MORE_STARTS,
    best_starts,
    start_agreement,
)
from repalign.core.inference.splits import Split
from repalign.core.maps.affine import AffineMap, MappedRows
from repalign.core.moment_sums import Parts
from repalign.core.moments import PairMoments, space_moments
from repalign.core.rows import SubsetRows
from repalign.core.thread_choice import is_small, one_thread_if
from repalign.exceptions import InputError
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.space import Space
from repalign.workflows.machine import Machine

# Multiplications that the starts of one space may take unless a number is asked for: some ten
# seconds on two cores.
START_BUDGET = 5e11
TYPICAL_PASSES = 150


def start_seed(seed: int, content: str, number: int = 0) -> int:
    """Return the seed of start ``number`` of the ICA of a content.

    It hangs on the content and not on its place on the command line, so that a pair has the same
    numbers alone and among ten. Other content has another start: from a common one two spaces
    would end alike where there is nothing to find, since their principal directions agree. Equal
    content has one start, and so one fit.
    """
    text = f"ICA {seed} {content} {number}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


@dataclass(frozen=True, eq=False)
class MomentsUnit:
    """The moments of every part of a space."""

    key: str
    space: Space
    split: Split
    stage = "moments"

    def run(self, machine: Machine) -> tuple[PairMoments, ...]:
        """Pass over the rows once."""
        with one_thread_if(is_small(self.space.n_rows, self.space.dim)):
            parts = Parts(self.split.part_of_row, self.split.n_parts)
            return space_moments(self.space.rows, parts, **machine.limits("moments"))


@dataclass(frozen=True)
class IcaRows:
    """Which rows of a space an ICA is fitted on.

    Attributes:
        part: The part of the split that is left out to judge; None for none.
        half: Which half of the rest, where the two sides of a pair use disjoint ones.
    """

    part: int | None = None
    half: int | None = None


@dataclass(frozen=True, eq=False)
class SpaceIca:
    """The ICA of a space from several independent starts.

    Attributes:
        fits: The starts that are kept, the best contrast first.
        n_starts: Starts that were made.
        agreement: Mean matched |correlation| of the best with the others kept; None of one.
    """

    fits: tuple[IcaFit, ...]
    n_starts: int
    agreement: float | None

    @property
    def fit(self) -> IcaFit:
        """The start of best contrast, of which maps are saved."""
        return self.fits[0]


@dataclass(frozen=True, eq=False)
class IcaUnit:
    """The ICA of a space on some of its rows.

    Attributes:
        key: Name of the work.
        space: The space.
        split: How its rows are split.
        on: Which of them are used.
        cut: Onto fewer columns first; None for all.
        moments: Of the rows without the part left out, after the cut.
        settings: Conventions.
        side: What the space is called in messages: source or target.
    """

    key: str
    space: Space
    split: Split
    on: IcaRows
    cut: AffineMap | None
    moments: PairMoments
    settings: CompareSettings
    side: str
    stage = "ICA"

    def run(self, machine: Machine) -> SpaceIca:
        """Fit it.

        Raises:
            InputError: These rows cannot be unmixed.
        """
        import repalign.core.ica.fit  # noqa: F401  torch, before its threads are held

        with one_thread_if(is_small(self.space.n_rows, self.space.dim)):
            rows, moments = self._fitting(machine)
            try:
                return fit_space(
                    rows,
                    mean=moments.mean_x,
                    covariance=moments.sxx / moments.n,
                    settings=self.settings,
                    machine=machine,
                    content=self.space.source.fingerprint,
                )
            except InputError as failure:
                raise InputError(
                    f"ICA of the {self.side} on {rows.shape[0]} rows: {failure}, or leave ICA out "
                    "(--maps mean,permutation,rigid,linear)"
                ) from failure

    def _fitting(self, machine: Machine) -> tuple[Rows, PairMoments]:
        """Return the rows to fit on, and their moments."""
        rows = self.space.rows if self.cut is None else MappedRows(self.space.rows, self.cut)
        chosen = None if self.on.part is None else self.split.fitting_rows(self.on.part)
        if self.on.half is None:
            return rows if chosen is None else SubsetRows(rows, chosen), self.moments
        every = np.arange(self.space.n_rows) if chosen is None else chosen
        half = SubsetRows(rows, half_of(every, self.on.half, self.settings.seed))
        # Not those of all rows: what is white on all rows is not white on half of them.
        (moments,) = space_moments(half, **machine.limits("moments"))
        return half, moments


def half_of(rows: IntArray, half: int, seed: int) -> IntArray:
    """Return the half of the rows, drawn at random, that belongs to one side."""
    order = np.random.default_rng(seed).permutation(rows)
    middle = len(order) // 2
    return np.sort(order[:middle] if half == 0 else order[middle:])


def fit_space(
    rows: Rows,
    *,
    mean: FloatArray,
    covariance: FloatArray,
    settings: CompareSettings,
    machine: Machine,
    content: str,
) -> SpaceIca:
    """Fit ICA from as many random starts as are asked for, or as their agreement calls for."""
    from repalign.core.ica.fit import fit_starts

    # the seed of the first start chooses the rows of all
    seed = start_seed(settings.seed, content)
    chosen = replace(settings.ica, start="random", seed=seed)

    def start(numbers: range) -> list[IcaFit]:
        seeds = [start_seed(settings.seed, content, number) for number in numbers]
        return fit_starts(
            rows,
            seeds,
            mean=mean,
            covariance=covariance,
            settings=chosen,
            **machine.limits("ICA"),
        )

    affordable = affordable_starts(rows.shape[0], len(mean), settings)
    wanted = settings.starts or min(FIRST_STARTS, affordable)
    fits = start(range(wanted))
    agreement = start_agreement(fits, covariance)
    if settings.starts is None and agreement is not None:
        if agreement >= AGREEMENT or affordable < MORE_STARTS:
            return SpaceIca(best_starts(fits, len(fits)), len(fits), agreement)
        fits += start(range(len(fits), MORE_STARTS))
    kept = best_starts(fits, (len(fits) + 1) // 2)
    return SpaceIca(kept, len(fits), start_agreement(kept, covariance))


def affordable_starts(n_rows: int, dim: int, settings: CompareSettings) -> int:
    """Return how many starts of one space the budget allows, at least one.

    scikit-learn's solver is there for fidelity to what was published: one start.
    """
    if settings.ica.solver == "sklearn":
        return 1
    return max(int(START_BUDGET / fit_cost(n_rows, dim)), 1)


def fit_cost(n_rows: int, dim: int) -> float:
    """Return about how many multiplications one start takes."""
    return 2.0 * n_rows * dim**2 * TYPICAL_PASSES
