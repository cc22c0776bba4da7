import numpy as np
import pytest

from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.figures.models import plot_models
from repalign.workflows.figures.pair import (
    plot_correlations,
    plot_kurtosis,
    plot_nulls,
    plot_spectra,
    plot_splits,
)


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(300, 4)) * [1, 2, 3, 4]
    y = x @ np.linalg.qr(rng.standard_normal((4, 4)))[0] + 0.1 * rng.standard_normal(x.shape)
    return compare(x, y, settings=CompareSettings(n_null=9, n_gaussian=0, n_refits=0))


def record(source: str, target: str, error: float | None) -> dict[str, object]:
    names = {"source": source, "target": target, "map": "rigid", "split": "held-out"}
    return names | {"error": error}


def test_the_heat_map_has_a_number_in_every_cell_that_was_measured() -> None:
    records = [record("x/a.h5", "b", 0.1234), record("b", "c", 66.486), record("x/a.h5", "c", None)]
    axes = plot_models(records, "rigid", "held-out").axes[0]
    cells = {(text.get_position()): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): ".123", (1, 1): "66.486"}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["b", "c"]


def test_null_errors_are_those_whose_mean_the_record_gives(result) -> None:
    nulls = result.pairs[0].null_errors
    for row in result.records:
        assert np.mean(nulls[f"{row.split}/{row.map}"]) == pytest.approx(row.null)


def test_splits_join_the_two_errors_of_every_map(result) -> None:
    axes = plot_splits(result.to_records()).axes[0]
    errors = {(r.map, r.split): r.error for r in result.records}
    maps = [label.get_text() for label in axes.get_yticklabels()]
    assert maps == ["mean", "permutation", "rigid", "linear", "ica"]
    for name, line in zip(maps, axes.lines, strict=True):
        assert list(line.get_xdata()) == [errors[name, s] for s in ("in-sample", "held-out")]


def test_nulls_stand_beside_the_held_out_error(result) -> None:
    axes = plot_nulls(result.pairs[0].null_errors, result.to_records()).axes[0]
    points = [collection.get_offsets()[:, 0] for collection in axes.collections]
    errors = {r.map: r.error for r in result.records if r.split == "held-out"}
    assert list(points[0]) == list(result.pairs[0].null_errors["held-out/mean"])
    assert points[1].tolist() == [errors["mean"]]


def test_components_spectra_and_kurtosis_fall(result) -> None:
    pair = result.pairs[0]
    heights = [
        bar.get_height() for bar in plot_correlations(pair.matched_correlations).axes[0].patches
    ]
    assert heights == sorted((abs(c) for c in pair.matched_correlations), reverse=True)
    shares = plot_spectra(pair.spectra).axes[0].lines[0].get_ydata()
    assert sum(shares) == pytest.approx(1)
    reports = [{"side": report.side, "kurtosis": report.kurtosis} for report in pair.ica]
    lines = plot_kurtosis(reports).axes[0].lines
    assert list(lines[1].get_ydata()) == sorted(pair.ica[1].kurtosis, reverse=True)
