"""The laws that trials are drawn from, and what is counted on them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from repalign.experiments.reproduce.experiment import Case

if TYPE_CHECKING:
    from repalign.aliases import FloatArray, IntArray

DIM = 4
TRIALS = 50
# Of the rows that groups share, one of them has a third.
Sizes = Literal["alone", "groups of 10", "unequal groups"]
Counted = Literal[
    "false positives",
    "false positives beyond groups",
    "coverage",
    "twins",
    "false positives of scores",
    "coverage of scores",
]


@dataclass(frozen=True)
class CalibrationCase(Case):
    """One law of rows and what is counted on it.

    Attributes:
        counted: What the shares are of.
        n_rows: Rows, about as many for unequal groups.
        sizes: Of the groups of rows.
        icc: Share of the variance that the rows of a group have in common.
        folds: Cross-validated in five folds instead of one fifth held out.
        ica_rows: On which rows the ICA of twins is fitted.
        n_columns: Columns of both sides.
        n_trials: Trials a seed.
        factors: Whether factors are the same in all rows of a group.
        scores: Groups of scores that are counted.
    """

    counted: Counted
    n_rows: int
    sizes: Sizes = "alone"
    icc: float = 0.0
    folds: bool = False
    ica_rows: Literal["same", "disjoint"] = "same"
    n_columns: int = DIM
    n_trials: int = TRIALS
    factors: Literal["constant", "varying"] = "varying"
    scores: tuple[str, ...] = ()


def group_sizes(case: CalibrationCase) -> "IntArray":
    """Return the number of rows of every group."""
    n = case.n_rows
    if case.sizes == "alone":
        return np.ones(n, dtype=np.int64)
    if case.sizes == "groups of 10":
        return np.full(n // 10, 10)
    # the largest a third of the rows, then a half of that, a third, …
    return np.maximum(1, n / 3 / np.arange(1, n // 10 + 1)).astype(np.int64)


def groups_of(case: CalibrationCase) -> "IntArray":
    """Return the group of every row."""
    sizes = group_sizes(case)
    return np.repeat(np.arange(len(sizes)), sizes)


def draw_gaussian(
    groups: "IntArray", icc: float, rng: np.random.Generator, dim: int = DIM
) -> "FloatArray":
    """Return Gaussian rows of unit variance, of which groups share a part."""
    shared, own = (
        rng.standard_normal((groups[-1] + 1, dim)),
        rng.standard_normal((groups.size, dim)),
    )
    return np.sqrt(icc) * shared[groups] + np.sqrt(1 - icc) * own


def draw_sources(
    groups: "IntArray", icc: float, rng: np.random.Generator, dim: int = DIM
) -> "FloatArray":
    """Return the same with heavy tails (Laplace), so that ICA has something to find."""
    shared = rng.laplace(size=(groups[-1] + 1, dim))
    own = rng.laplace(size=(groups.size, dim))
    return (np.sqrt(icc) * shared[groups] + np.sqrt(1 - icc) * own) / np.sqrt(2)
