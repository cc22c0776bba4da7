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
# Multiplications that ICA on halves of a pair, and on quarters of it, may take unless a number of
# them is asked for: some ten seconds of one core.
HALVING_BUDGET = 4e11
FEWEST_HALVINGS, MOST_HALVINGS = 5, 10


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
        half: Which half of the rest, where the two sides of a pair use disjoint ones.
        only: The parts that it is fitted on, instead of all but one.
    """

    part: int | None = None
    half: int | None = None
    only: tuple[int, ...] = ()

    def of(self, split: Split) -> IntArray | None:
        """Return which rows these are before they are halved for the two sides; None for all."""
        if self.only:
            return np.flatnonzero(np.isin(split.part_of_row, self.only))
        return None if self.part is None else split.fitting_rows(self.part)


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


def half_of(rows: IntArray, half: int, seed: int) -> IntArray:
    """Return the half of the rows, drawn at random, that belongs to one side."""
    order = np.random.default_rng(seed).permutation(rows)
    middle = len(order) // 2
    return np.sort(order[:middle] if half == 0 else order[middle:])


def affordable_starts(n_rows: int, dim: int, settings: CompareSettings) -> int:
    """Return how many starts of one space the budget allows, at least one.

    scikit-learn's solver is there for fidelity to what was published: one start.
    """
    if settings.ica.solver == "sklearn":
        return 1
    return max(int(START_BUDGET / fit_cost(n_rows, dim)), 1)


def n_halvings(n_rows: int, dim: int, settings: CompareSettings) -> int:
    """Return how often a pair is halved: unless a number is asked for, only where it is cheap."""
    if not settings.has_ica or settings.n_refits == 0:
        return 0
    if settings.n_halves is not None:
        return settings.n_halves // 2
    # of either side two halves and four quarters, which take as long as the whole twice
    affordable = int(HALVING_BUDGET / (4 * fit_cost(n_rows, dim)))
    return min(affordable, MOST_HALVINGS) if affordable >= FEWEST_HALVINGS else 0


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
