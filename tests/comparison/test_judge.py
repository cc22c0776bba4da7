import numpy as np
import pytest

from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.core.device import threads_held

SETTINGS = CompareSettings(
    maps=("permutation", "rigid", "ica"), held_out=0.3, n_null=0, n_rotations=0, starts=1
)


def related(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a pair of which ICA finds the sources, each time a little otherwise."""
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=(800, 3))
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    return x, x @ turn + 0.3 * rng.normal(size=x.shape)


@pytest.mark.slow
@pytest.mark.parametrize("column", ["error", "efficiency"])
def test_half_samples_know_that_ica_would_find_other_components(column: str) -> None:
    split = "in-sample" if column == "error" else "held-out"
    low, high = (
        ("ci_low", "ci_high") if column == "error" else ("efficiency_low", "efficiency_high")
    )
    with threads_held(1):
        records = [
            record
            for seed in range(24)
            for record in compare(*related(seed), settings=SETTINGS).records
            if (record.map, record.split) == ("ica", split)
        ]
    scale = [record.diameter if column == "error" else 1.0 for record in records]
    values = np.array([getattr(record, column) for record in records]) * scale
    half_widths = [(getattr(record, high) - getattr(record, low)) / 2 for record in records]
    quantile = 2.09  # of Student's t with 19 degrees of freedom
    said = np.median(np.array(half_widths) * scale) / quantile
    assert 0.5 < said / values.std(ddof=1) < 2.5


def test_in_sample_efficiency_has_no_interval_and_no_p_value() -> None:
    records = compare(*related(0), maps=["permutation", "rigid", "ica"], starts=1).records
    ica = {record.split: record for record in records if record.map == "ica"}
    assert ica["in-sample"].efficiency is not None
    assert ica["in-sample"].efficiency_low is None
    assert ica["in-sample"].efficiency_p is None
    assert ica["held-out"].efficiency_p == pytest.approx(0.01)
    assert ica["held-out"].efficiency_low < ica["held-out"].efficiency


def test_too_few_rows_for_disjoint_halves_leave_the_held_out_efficiency_without_a_null() -> None:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(60, 30))
    result = compare(x, x + 0.1 * rng.normal(size=x.shape), rotations=9, starts=1)
    (ica,) = [r for r in result.records if (r.map, r.split) == ("ica", "held-out")]
    assert ica.efficiency_p is None
    assert ica.n_rotations is None
