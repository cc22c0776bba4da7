"""What is known of one space alone: its moments, how wide it is, and its ICA on some of its rows.

All are computed once for all pairs that the space is in. Seeds follow from content.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from repalign.aliases import IntArray, Rows
from repalign.core.errors.diameter import Diameter, diameter
from repalign.core.errors.robust_scale import quantile_diameter, target_rms_radius
from repalign.core.ica.components import IcaFit
from repalign.core.inference.splits import Split
from repalign.core.maps.affine import AffineMap
from repalign.core.moment_sums import Parts
from repalign.core.moments import PairMoments, space_moments
from repalign.core.thread_choice import is_small, one_thread_if
from repalign.workflows.compare.aligned import Space
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.machine import Machine

# Multiplications that the starts of one space may take unless a number is asked for: some ten
# seconds on two cores.
START_BUDGET = 5e11
TYPICAL_PASSES = 150
N_HALVES = 20
"""Half-samples behind an interval."""
# Multiplications that the ICA of half-samples may take unless a number of them is asked for: some
# ten seconds of one core.
HALVES_BUDGET = 4e11


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
    """The moments of every part of a space; its rows stay in memory if what follows reads them."""

    key: str
    space: Space
    split: Split
    keeps_rows: bool = False
    stage = "moments"

    def run(self, machine: Machine) -> tuple[PairMoments, ...]:
        """Pass over the rows once."""
        space = self.space
        with one_thread_if(is_small(space.n_rows, space.dim)):
            parts = Parts(self.split.part_of_row, self.split.n_parts)
            rows = _kept_rows(space, machine) if self.keeps_rows else space.rows
            return space_moments(rows, parts, **machine.limits("moments"))


@dataclass(frozen=True)
class IcaRows:
    """Which rows of a space an ICA is fitted on.

    Attributes:
        part: The part of the split that is left out to judge; None for none.
        half: Which half of the groups of the rest, where the two sides use disjoint ones.
        only: The parts that it is fitted on, instead of all but one.
    """

    part: int | None = None
    half: int | None = None
    only: tuple[int, ...] = ()

    def of(self, split: Split) -> IntArray | None:
        """Return the numbers of these rows; None for all."""
        if self.only:
            return np.flatnonzero(np.isin(split.part_of_row, self.only))
        if self.part is None:
            return None
        if self.half is None:
            return split.fitting_rows(self.part)
        assert split.half_of_row is not None
        return np.flatnonzero((split.part_of_row != self.part) & (split.half_of_row == self.half))


@dataclass(frozen=True, eq=False)
class SpaceIca:
    """The ICA of a space from several independent starts.

    Attributes:
        key: Name of the work.
        fits: The starts that are kept, the best contrast first.
        n_starts: Starts that were made.
        agreement: Mean matched |correlation| of the best with the others kept; None of one.
    """

    key: str
    fits: tuple[IcaFit, ...]
    n_starts: int
    agreement: float | None

    @property
    def fit(self) -> IcaFit:
        """The start of best contrast, of which maps are saved."""
        return self.fits[0]


def affordable_starts(n_rows: int, dim: int, settings: CompareSettings) -> int:
    """Return how many starts of one space the budget allows, at least one.

    scikit-learn's solver is there for fidelity to what was published: one start.
    """
    if settings.ica.solver == "sklearn":
        return 1
    return max(int(START_BUDGET / fit_cost(n_rows, dim)), 1)


def halves_have_ica(n_rows: int, dim: int, settings: CompareSettings) -> bool:
    """Whether ICA is fitted on half-samples: where a number is asked for, or it is cheap.

    In-sample half of the rows, and a quarter of them or less behind each held-out part.
    """
    if not settings.has_ica or settings.n_halves == 0:
        return False
    if settings.n_halves is not None:
        return True
    n_judged = settings.n_folds or bool(settings.held_out)
    share = 0.5 + 0.25 * n_judged
    return N_HALVES * share * fit_cost(n_rows, dim) <= HALVES_BUDGET


def fit_cost(n_rows: int, dim: int) -> float:
    """Return about how many multiplications one start takes."""
    return 2.0 * n_rows * dim**2 * TYPICAL_PASSES


@dataclass(frozen=True, eq=False)
class Spread:
    """How far apart the rows of a space are: the diameter, and a quantile of all distances."""

    diameter: Diameter
    diameter_99: float


@dataclass(frozen=True, eq=False)
class Scale:
    """Denominators of errors in one space: the diameter, and two that no outlier sets."""

    diameter: Diameter
    diameter_99: float
    rms_radius: float


# By side: 0 source, 1 target.
SpreadOfSides = Mapping[int, Spread]


def spread_of(rows: Rows, seed: int, machine: Machine) -> Spread:
    """Return how far apart some rows are."""
    return Spread(diameter(rows, **machine.limits("diameter")), quantile_diameter(rows, seed=seed))


@dataclass(frozen=True, eq=False)
class SpreadUnit:
    """How far apart the rows of a space are."""

    key: str
    space: Space
    seed: int
    stage = "diameter"

    def run(self, machine: Machine) -> Spread:
        """Measure it, on rows that stay in memory where they have room: pairs are next."""
        space = self.space
        with one_thread_if(is_small(space.n_rows, space.dim)):
            return spread_of(_kept_rows(space, machine), self.seed, machine)


def _kept_rows(space: Space, machine: Machine) -> Rows:
    """Return rows that stay in memory where they have room, so that a file is read once."""
    from repalign.workflows.study.tiles import HELD, room_for_rows

    return HELD.rows(space, room_for_rows(space.n_rows, (space.dim, space.dim), machine))


def rms_radius(moments: PairMoments, space: AffineMap | None) -> float:
    """Return the root mean squared distance of the target rows from their mean in a space."""
    if space is None:
        return target_rms_radius(moments)
    scatter = np.einsum("ij,ik,kj->", space.matrix, moments.syy, space.matrix, optimize=True)
    return float(np.sqrt(max(scatter, 0.0) / moments.n))
