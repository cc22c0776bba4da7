"""Denominators of errors: how wide a space is, found once for all pairs that have it as target."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from repalign.aliases import IntArray, Rows
from repalign.core.errors.diameter import Diameter, diameter
from repalign.core.errors.robust_scale import quantile_diameter, target_rms_radius
from repalign.core.inference.splits import Split
from repalign.core.maps.affine import AffineMap
from repalign.core.moments import PairMoments
from repalign.core.rows import SubsetRows
from repalign.core.thread_choice import is_small, one_thread_if
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.space import Space
from repalign.workflows.machine import Machine


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


# By side (0 source, 1 target), and whether it is of the rows that judge alone.
SpreadOfSides = Mapping[tuple[int, bool], Spread]


def spread_of(rows: Rows, seed: int, machine: Machine) -> Spread:
    """Return how far apart some rows are."""
    return Spread(diameter(rows, **machine.limits("diameter")), quantile_diameter(rows, seed=seed))


@dataclass(frozen=True, eq=False)
class SpreadUnit:
    """How far apart the rows of a space are, or those of them that judge."""

    key: str
    space: Space
    judged: IntArray | None
    seed: int
    stage = "diameter"

    def run(self, machine: Machine) -> Spread:
        """Measure it, on rows that stay in memory where they have room: pairs are next."""
        from repalign.workflows.study.tiles import HELD, room_for_rows

        space = self.space
        with one_thread_if(is_small(space.n_rows, space.dim)):
            room = room_for_rows(space.n_rows, (space.dim, space.dim), machine)
            rows: Rows = HELD.rows(space, room)
            if self.judged is not None:
                rows = SubsetRows(rows, self.judged)
            return spread_of(rows, self.seed, machine)


def judging_rows(split: Split, settings: CompareSettings) -> IntArray | None:
    """Return the rows that set the diameter of held-out errors; None for all."""
    judged = np.concatenate([split.judged_rows(part) for part in split.judged])
    every = judged.size == split.part_of_row.size or settings.diameter_rows == "all"
    return None if every else np.sort(judged)


def rms_radius(moments: PairMoments, space: AffineMap | None) -> float:
    """Return the root mean squared distance of the target rows from their mean in a space."""
    if space is None:
        return target_rms_radius(moments)
    scatter = np.einsum("ij,ik,kj->", space.matrix, moments.syy, space.matrix, optimize=True)
    return float(np.sqrt(max(scatter, 0.0) / moments.n))
