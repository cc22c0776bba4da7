"""Maps fitted again without some of the rows that fitted them: intervals of in-sample errors."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from repalign.aliases import Rows
from repalign.core.inference.kept_rows import FitAll, JudgedMap
from repalign.core.inference.left_out import (
    FEWEST_GROUPS,
    Claim,
    LeftOut,
    bundle_groups,
    leave_groups_out,
)
from repalign.core.moments import PairMoments, pair_moments
from repalign.core.rows import SubsetRows

# Fits every map on the moments of the rows without a bundle, whose number comes with them.
RefitAll = Callable[[PairMoments, int], Sequence[JudgedMap]]
# Takes the bundle of every row; returns how maps are fitted without one of the bundles.
Leaving = Callable[[Int[np.ndarray, " n"]], RefitAll]
# By bundle, what fitting without it adds to the mean errors of all maps on the other rows.
Added = Mapping[str, Sequence[float]]

MAX_REFITS = 50
# Rows on which refitted maps are compared with the fitted ones.
MAX_COMPARED = 2000
# Memory of the moments of the bundles that one pass over the rows collects.
MOMENTS_BYTES = 2**26


@dataclass(frozen=True, eq=False)
class InSample:
    """Maps that were fitted and judged on the same rows.

    Attributes:
        source: Rows of the source.
        target: Rows of the target.
        moments: Of all rows.
        errors: Of every fitted map on every row; of maps that are not those of ``fit_all`` (from
            other rows of a side, from several starts) refitting is taken to add the same.
        groups: Group of every row.
    """

    source: Rows
    target: Rows
    moments: PairMoments
    errors: Float[np.ndarray, "maps n"]
    groups: Int[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Refits:
    """Fits maps again without bundles of the rows.

    Attributes:
        sides: Rows of the source and the target.
        moments: Of all rows.
        bundle: Of every row.
        fit_all: Fits all maps on moments.
        leaving: How they are fitted without a bundle, where more than the moments hangs on it.
        seed: Of the rows on which maps are compared.
        moments_bytes: Memory for the moments of bundles.
    """

    sides: tuple[Rows, Rows]
    moments: PairMoments
    bundle: Int[np.ndarray, " n"]
    fit_all: FitAll
    leaving: Leaving | None
    seed: int
    moments_bytes: int = MOMENTS_BYTES

    def added(self, numbers: range) -> Added:
        """Return what fitting without each of these bundles adds."""
        bundle, fit_all = self.bundle, self.fit_all
        rng = np.random.default_rng(self.seed)
        compared = np.sort(rng.permutation(bundle.size)[:MAX_COMPARED])
        x, y = (rows.take(compared).astype(np.float64) for rows in self.sides)
        known = np.stack([judged.errors(x, y) for judged in fit_all(self.moments, None)])
        refit = _by_moments(fit_all) if self.leaving is None else self.leaving(bundle)
        found = {}
        limit = self.moments_bytes
        for number, part in moments_by_bundle(
            *self.sides, bundle, self.moments, numbers=numbers, memory_bytes=limit
        ):
            others = bundle[compared] != number
            refitted = refit(self.moments.subtract(part), number)
            new = np.array([judged.mean_error(x[others], y[others]) for judged in refitted])
            found[str(number)] = (new - known[:, others].mean(axis=1)).tolist()
        return found


def _by_moments(fit_all: FitAll) -> RefitAll:
    return lambda moments, _: fit_all(moments, None)


def refit_without_groups(
    fitted: InSample,
    fit_all: FitAll,
    *,
    leaving: Leaving | None = None,
    max_refits: int = MAX_REFITS,
    seed: int = 0,
    moments_bytes: int = MOMENTS_BYTES,
    known: Added | None = None,
) -> LeftOut:
    """Fit and judge again without every group in turn, or without every bundle of groups.

    ``leaving`` takes the bundle of every row and returns how maps are fitted without one, where
    more than the moments hangs on the rows. ``known`` is what refitting adds, where others
    computed it (``Refits.added``).

    The moments of the rest are those of all rows less those of the group, which costs one pass
    over the rows altogether. Of the errors without a group, those of the fitted maps are known
    for every row; what refitting adds to them is a small difference, measured on some rows.
    """
    bundle, count = bundle_groups(fitted.groups, max_refits, seed=seed)
    sizes = np.bincount(bundle).astype(np.float64)
    full = fitted.errors.mean(axis=1)
    if sizes.size < FEWEST_GROUPS:
        without = np.tile(full, (sizes.size, 1))
        return LeftOut(full, without, sizes, count, Claim.PROCEDURE)
    added = known
    if not added:
        sides, limit = (fitted.source, fitted.target), moments_bytes
        refits = Refits(sides, fitted.moments, bundle, fit_all, leaving, seed, limit)
        added = refits.added(range(sizes.size))
    without = leave_groups_out(fitted.errors, bundle).without.copy()
    without += np.array([added[str(number)] for number in range(sizes.size)])
    return LeftOut(full, without, sizes, count, Claim.PROCEDURE)


def moments_by_bundle(
    source: Rows,
    target: Rows,
    bundle: Int[np.ndarray, " n"],
    total: PairMoments,
    *,
    numbers: range | None = None,
    among: Int[np.ndarray, " n"] | None = None,
    memory_bytes: int = MOMENTS_BYTES,
) -> Iterator[tuple[int, PairMoments]]:
    """Yield the moments of every bundle, as many at once as their memory allows.

    ``total`` are the moments of all bundles together, ``numbers`` the bundles that are wanted (all
    unless given), ``among`` the rows they are (all unless given).
    """
    wanted = range(int(bundle.max()) + 1) if numbers is None else numbers
    p, q = total.source_dim, total.target_dim
    at_once = max(memory_bytes // (8 * (p * p + p * q + q * q)), 1)
    for first in range(wanted.start, wanted.stop, at_once):
        last = min(first + at_once, wanted.stop)
        rows = np.flatnonzero((bundle >= first) & (bundle < last))
        labels = bundle[rows] - first
        chosen = rows if among is None else among[rows]
        moments = pair_moments(
            SubsetRows(source, chosen),
            SubsetRows(target, chosen),
            part_of_row=labels,
            n_parts=int(labels.max()) + 1,
        )
        yield from enumerate(moments, start=first)
