"""Intervals of the in-sample errors of a pair: its maps fitted again without some of the groups."""

from dataclasses import replace
from functools import partial

import numpy as np

from repalign.aliases import IntArray
from repalign.core.inference.left_out import FEWEST_GROUPS, bundle_groups
from repalign.core.inference.refits import (
    MAX_COMPARED,
    Added,
    InSample,
    RefitAll,
    Refits,
    refit_without_groups,
)
from repalign.core.maps.fitting import fit_maps
from repalign.workflows.compare.judge import PairFitter, SplitErrors, ica_rows
from repalign.workflows.compare.settings import CompareSettings

# Multiplications that the refits of one pair may take unless a number is asked for.
REFIT_BUDGET = 5e10
REFITS = (10, 50)


def with_refits(fitter: PairFitter, errors: SplitErrors, known: Added | None = None) -> SplitErrors:
    """Return in-sample errors with what they are without each group, fitted again.

    ``known`` is what refitting adds, where others computed it.
    """
    most = _most_refits(fitter)
    if most == 0:
        return errors
    pair = fitter.pair
    norms = np.stack([errors.norms[name] for name in fitter.names])
    fitted = InSample(pair.source, pair.target, pair.total, norms, pair.aligned.groups)
    left_out = refit_without_groups(
        fitted,
        fitter.fit_all,
        leaving=partial(_leaving, fitter),
        max_refits=most,
        seed=fitter.settings.seed,
        known=known,
    )
    return replace(errors, left_out=left_out)


def some_refits(fitter: PairFitter, bundles: range) -> Added:
    """Return what refitting without some of the bundles adds."""
    seed, pair = fitter.settings.seed, fitter.pair
    bundle, _ = bundle_groups(pair.aligned.groups, _most_refits(fitter), seed=seed)
    sides = pair.source, pair.target
    leaving = partial(_leaving, fitter)
    return Refits(sides, pair.total, bundle, fitter.fit_all, leaving, seed).added(bundles)


def _most_refits(fitter: PairFitter) -> int:
    total = fitter.pair.total
    dim = max(total.source_dim, total.target_dim)
    return most_refits(refit_cost(total.n, dim, len(fitter.names)), fitter.settings)


def most_refits(cost: float, settings: CompareSettings) -> int:
    """Return how many refits of such a cost are made at most; 0 for no intervals."""
    if settings.n_refits is None:
        return int(np.clip(REFIT_BUDGET / cost, *REFITS))
    return max(settings.n_refits, 2) if settings.n_refits else 0


def refit_cost(n_rows: int, dim: int, n_maps: int) -> float:
    """Return about how many multiplications one refit takes."""
    return 30.0 * dim**3 + 4.0 * min(n_rows, MAX_COMPARED) * dim**2 * n_maps


def n_bundles(groups: IntArray, most: int) -> int:
    """Return without how many bundles of the groups maps are fitted: too few are not."""
    found = min(int(np.unique(groups).size), most)
    return found if found >= FEWEST_GROUPS else 0


def _leaving(fitter: PairFitter, bundle: IntArray) -> RefitAll:
    """Return how all maps are fitted without a bundle of the rows, ICA too."""
    if fitter.ica_without(None) is None:
        return lambda rest, _: fitter.fit_all(rest, None)
    settings = fitter.settings
    on = ica_rows(settings, 0, None), ica_rows(settings, 1, None)
    ica = fitter.pair.ica_leaving(on, bundle, settings.seed)
    names = fitter.names
    return lambda rest, one: fit_maps(names, fitter.inputs(rest, ica(rest, one))).in_order(names)
