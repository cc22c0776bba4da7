import numpy as np
import pytest

from repalign.core.thread_choice import one_thread
from repalign.workflows.compare import refits
from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings

SETTINGS = CompareSettings(
    maps=("permutation", "rigid", "ica"),
    held_out=0.0,
    n_null=0,
    n_gaussian=0,
    n_halves=0,
    starts=1,
    ica_rows="disjoint",
)


def drawn(seed: int):
    """A pair of which ICA finds the sources, each time a little otherwise."""
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=(800, 3))
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    return x, x @ turn + 0.3 * rng.normal(size=x.shape)


def spread_and_said(n_samples: int = 24) -> tuple[float, float]:
    """How far the efficiency varies over samples, and how far the intervals say it does."""
    with one_thread():
        found = [
            next(r for r in compare(*drawn(seed), settings=SETTINGS).records if r.map == "ica")
            for seed in range(n_samples)
        ]
    values = np.array([each.efficiency for each in found])
    half = np.array([each.efficiency_high - each.efficiency_low for each in found]) / 2
    return float(values.std(ddof=1)), float(np.median(half) / 2)


@pytest.mark.slow
def test_in_sample_intervals_know_that_ica_would_find_other_components(monkeypatch) -> None:
    spread, said = spread_and_said()
    assert 0.6 < said / spread < 1.6
    # as if ICA had found the same components in every sample
    monkeypatch.setattr(
        refits, "_leaving", lambda fitter, _: lambda rest, _: fitter.fit_all(rest, None)
    )
    same_spread, too_little = spread_and_said()
    assert same_spread == spread
    assert too_little / spread < 0.5
