import numpy as np
import pytest

from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.figures.drawing import svg_of
from repalign.workflows.figures.errors import MOST_PANELS, plot_errors
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


def test_views_of_one_file_have_their_own_cells_and_names_that_are_no_mathematics() -> None:
    records = [
        record("a.h5", "b.h5", error) | {"source_view": view, "target_view": "$x^$日"}
        for view, error in (("one", 0.1), ("two", 0.2))
    ]
    axes = plot_models(records, "rigid", "held-out").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a::one", "a::two"]
    assert [text.get_text() for text in axes.texts] == [".100", ".200"]
    svg_of(axes.figure, "x")  # would not end if the name were set as mathematics


def test_names_that_would_be_the_same_stay_long() -> None:
    records = [record("x/a.h5", "c", 0.1), record("y/a.h5", "c", 0.2)]
    axes = plot_models(records, "rigid", "held-out").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x/a.h5", "y/a.h5"]


def many(count: int) -> list[dict[str, object]]:
    known = {"ci_low": None, "ci_high": None, "null": None, "source_view": "", "target_view": ""}
    return [
        record("a.h5", "a.h5", number / 1000) | known | {"target_view": f"block{number}"}
        for number in range(1, count + 1)
    ]


def test_every_pair_of_views_has_its_panel() -> None:
    figure = plot_errors(many(28))
    drawn = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in drawn] == [
        f"a.h5 → a.h5::block{number}" for number in range(1, 29)
    ]
    assert [axes.patches[0].get_height() for axes in drawn] == [n / 1000 for n in range(1, 29)]
    assert figure.get_suptitle() == ""


def test_what_is_left_out_is_said() -> None:
    figure = plot_errors(many(MOST_PANELS + 2))
    assert len(figure.axes) == MOST_PANELS
    assert figure.get_suptitle().startswith(f"2 of {MOST_PANELS + 2} pairs are left out")


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
