"""Would starts of ICA that are behind, stopped early, have been left out of the better half anyway?

    python -m benchmarks.losers a.h5::final b.npy --pool 60

Of every file a pool of starts is searched to its end, and the contrast noted after some passes.
Groups of ten starts are drawn from the pool, of which five are kept. Printed for every number of
passes: how the order of the contrasts then and at the end agree; how often the five that lead are
those that are kept in the end, and what stopping the other five saves; and what is saved where only
starts are stopped that are so far behind that the five stay the same in 98 % of the groups. A pass
over the rows for each start, to know its contrast, is taken off.
"""

import argparse
from dataclasses import dataclass
from unittest import mock

import numpy as np
import torch

from repalign.core.ica.contrast import CONTRASTS
from repalign.core.ica.diagnostics import report_components
from repalign.core.ica.fit import Prepared, prepare
from repalign.core.ica.search import RotationSearch
from repalign.core.ica.settings import IcaSettings
from repalign.core.moments import space_moments
from repalign.core.rows import Rows
from repalign.store.open import open_embeddings

PASSES = (20, 40, 60, 80)
MADE, KEPT = 10, 5
DRAWS = 2000


@dataclass(frozen=True)
class Start:
    """Passes and contrast at the end, and contrasts on the way, by passes."""

    passes: int
    contrast: float
    early: dict[int, float]

    def after(self, passes: int) -> float:
        return self.early.get(passes, self.contrast)


def watched(prepared: Prepared, seed: int) -> Start:
    """Search from one start, and look at the contrast on the way."""
    found: list[torch.Tensor] = []
    observe = RotationSearch.observe

    def watch(search: RotationSearch, *args: object, **options: object) -> None:
        observe(search, *args, **options)
        found.append(search.best.clone())

    with mock.patch.object(RotationSearch, "observe", watch):
        fit = prepared.fit(seed)
    assert prepared.data is not None
    contrast, data = CONTRASTS["logcosh"], prepared.data
    early = {
        passes: report_components(data, contrast, found[passes - 1].numpy()).contrast_value
        for passes in PASSES
        if passes <= len(found) and len(found[passes - 1]) == fit.rank
    }
    return Start(fit.n_iter, fit.contrast_value, early)


def pool_of(rows: Rows, size: int) -> list[Start]:
    (moments,) = space_moments(rows)
    covariance = moments.sxx / moments.n
    made = prepare(rows, mean=moments.mean_x, covariance=covariance, settings=IcaSettings())
    return [watched(made, seed) for seed in range(size)]


def line(pool: list[Start], passes: int, rng: np.random.Generator) -> str:
    """Return the figures for stopping after so many passes."""
    early = np.array([start.after(passes) for start in pool])
    final = np.array([start.contrast for start in pool])
    length = np.array([start.passes for start in pool])
    left = np.maximum(length - passes, 0)
    draws = [rng.choice(len(pool), MADE, replace=False) for _ in range(DRAWS)]
    kept = [draw[np.argsort(final[draw])[:KEPT]] for draw in draws]
    fifth = [np.sort(early[draw])[KEPT - 1] for draw in draws]
    behind = [(early[best] - edge).max() for best, edge in zip(kept, fifth, strict=True)]

    def saved(margin: float) -> float:
        shares = [
            (left[draw][early[draw] > edge + margin].sum() - MADE) / length[draw].sum()
            for draw, edge in zip(draws, fifth, strict=True)
        ]
        return float(np.mean(shares))

    agree = np.corrcoef(*(np.argsort(np.argsort(values)) for values in (early, final)))[0, 1]
    same = np.mean(np.array(behind) <= 0)
    margin = max(float(np.quantile(behind, 0.98)), 0.0)
    return f"{agree:.2f} | {same:.2f} | {saved(0.0):.0%} | {saved(margin):.1%}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--pool", type=int, default=60)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.files:
        rows = open_embeddings(name).rows
        pool = pool_of(rows, given.pool)
        final = np.array([start.contrast for start in pool])
        size = f"{rows.shape[0]} × {rows.shape[1]}"
        length = int(np.median([start.passes for start in pool]))
        print(
            f"{name}, {size}, {length} passes, "
            f"contrasts differ by {np.ptp(final / final.min()):.2%}"
        )
        for passes in PASSES:
            print(f"| {passes} | {line(pool, passes, np.random.default_rng(0))} |", flush=True)


if __name__ == "__main__":
    main()
