from pathlib import Path

import numpy as np
import pytest

from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.figures.errors import MOST_PANELS, plot_errors
from repalign.figures.matrix import array_of, limits, plot_matrix
from repalign.figures.pair import (
    plot_correlations,
    plot_kurtosis,
    plot_nulls,
    plot_spectra,
    plot_splits,
)
from repalign.figures.style import as_svg, new_figure, write_figure
from repalign.tables.matrix import make_matrix


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(300, 4)) * [1, 2, 3, 4]
    y = x @ np.linalg.qr(rng.standard_normal((4, 4)))[0] + 0.1 * rng.standard_normal(x.shape)
    return compare(x, y, settings=CompareSettings(n_null=9, n_rotations=0, n_halves=0))


def record(source: str, target: str, error: float | None) -> dict[str, object]:
    names = {"source": source, "target": target, "map": "rigid", "split": "held-out"}
    return names | {"error": error, "n_rows": 60, "diameter": 2.0, "rms_radius": 2.0}


def heat_map(records, **options):
    return plot_matrix(make_matrix(records), **options).axes[0]


def test_the_heat_map_has_a_number_in_every_cell_that_was_measured() -> None:
    records = [record("x/a.h5", "b", 0.1234), record("b", "c", 66.486), record("x/a.h5", "c", None)]
    axes = heat_map(records)
    cells = {(text.get_position()): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): ".123", (1, 0): "n/a", (1, 1): "66.49"}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["b", "c"]


def test_views_of_one_file_have_their_own_cells_and_names_that_are_no_mathematics() -> None:
    records = [
        record("a.h5", "b.h5", error) | {"source_view": view, "target_view": "$x^$日"}
        for view, error in (("one", 0.1), ("two", 0.2))
    ]
    axes = heat_map(records)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]
    assert [text.get_text() for text in axes.texts] == [".100", ".200"]
    assert axes.get_ylabel() == "source: a"
    as_svg(axes.figure, "x")  # would not end if the name were set as mathematics


def test_names_that_would_be_the_same_stay_long() -> None:
    records = [record("x/a.h5", "c", 0.1), record("y/a.h5", "c", 0.2)]
    axes = heat_map(records)
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
    assert figure.get_suptitle().startswith(f"2 of {MOST_PANELS + 2} pairs")


def test_null_errors_are_those_whose_mean_the_record_gives(result) -> None:
    nulls = result.pairs[0].null_errors
    for row in result.records:
        assert np.mean(nulls[f"{row.split}/{row.map}"]) == pytest.approx(row.null)


def test_splits_join_the_two_errors_of_every_map(result) -> None:
    axes = plot_splits(result.to_records()).axes[0]
    errors = {(r.map, r.split): r.error for r in result.records}
    maps = [label.get_text() for label in axes.get_yticklabels()]
    assert maps == list(dict.fromkeys(r.map for r in result.records))
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
    kurtosis = {report.side: report.kurtosis for report in pair.ica}
    lines = plot_kurtosis(kurtosis).axes[0].lines
    assert list(lines[1].get_ydata()) == sorted(pair.ica[1].kurtosis, reverse=True)


def layers(n: int, **options):
    """Every layer of A against every layer of B, the same number being closest."""
    return [
        record("A", "B", 0.1 + abs(i - j) / n)
        | {"source_view": f"block-{i}", "target_view": f"block-{j}"}
        for i in range(n)
        for j in range(n)
    ]


def notes_of(figure) -> str:
    return " ".join(figure.get_supxlabel().split())


@pytest.mark.parametrize("n", [2, 30, pytest.param(130, marks=pytest.mark.slow)])
def test_names_are_readable_for_any_number_of_views(n: int) -> None:
    figure = plot_matrix(make_matrix(layers(n)))
    axes = figure.axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0] == "block-0"
    assert axes.get_ylabel() == "source: A"
    size = axes.get_yticklabels()[0].get_fontsize() / 72
    assert size * len(names) <= figure.get_size_inches()[1]
    assert size * 72 >= 5
    assert (len(names) == n) == ("is named" not in notes_of(figure))
    assert max(figure.get_size_inches()) < 16


def test_the_best_target_of_every_source_is_ringed_and_joined() -> None:
    matrix = make_matrix(layers(5))
    assert matrix.closest() == {(i, "B"): i for i in range(5)}
    figure = plot_matrix(matrix)
    (line,) = figure.axes[0].lines
    assert list(line.get_xdata()) == list(line.get_ydata()) == list(range(5))
    assert "ringed: " in notes_of(figure)


def test_a_heat_map_says_what_it_leaves_out() -> None:
    records = [record("a", "b", 0.1), record("b", "c", 0.2), record("a", "c", None)]
    records.append(record("a", "b", 0.1) | {"map": "linear"})
    told = notes_of(plot_matrix(make_matrix(records)))
    assert "blank: 1 of 4 pairs" in told
    assert "n/a: 1 undefined" in told
    assert "also measured: linear" in told


def test_notes_of_a_small_heat_map_stay_within_it() -> None:
    names = ("mean", "identity", "permutation", "permutation+scale", "rigid", "linear", "ica")
    records = [record("a", "b", 0.1) | {"map": name} for name in names]
    figure = plot_matrix(make_matrix(records))
    figure.draw_without_rendering()
    (notes,) = (text for text in figure.texts if "also measured" in text.get_text())
    assert notes.get_window_extent().width <= figure.bbox.width


def test_one_huge_error_does_not_take_all_colours() -> None:
    records = [record("a", f"b{number}", 0.1 * (1 + number % 3)) for number in range(20)]
    records.append(record("a", "far", 66.0))
    matrix = make_matrix(records)
    assert limits(array_of(matrix), "lower") == (0.1, pytest.approx(0.45))
    assert "colours end at .450" in notes_of(plot_matrix(matrix))
    assert limits(array_of(matrix), "higher") == (0.1, 66.0)


def test_what_hardly_differs_looks_alike() -> None:
    close = make_matrix([record("a", f"b{number}", 0.30 + number / 1000) for number in range(9)])
    low, high = limits(array_of(close), "lower")
    assert (low, high) == (pytest.approx(0.154), pytest.approx(0.308))


def test_clustering_puts_similar_views_together() -> None:
    groups = {"a": 0, "b": 1, "c": 0, "d": 1, "e": 0}
    records = [
        record(one, other, 0.1 if groups[one] == groups[other] else 0.8)
        for one in groups
        for other in groups
        if one != other
    ]
    axes = heat_map(records, order="cluster")
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert {frozenset(names[:2]), frozenset(names[3:])} & {frozenset("bd")}
    assert sorted(names) == list("abcde")
    rows = [label.get_text() for label in heat_map(records).get_yticklabels()]
    assert rows == list("abcde")


def test_twenty_eight_pairs_of_views_of_one_file_have_a_panel_each() -> None:
    views = [f"block{number}" for number in range(8)]
    known = {"ci_low": None, "ci_high": None, "null": None}
    records = [
        record("a.h5", "a.h5", 0.1) | known | {"source_view": one, "target_view": other}
        for place, one in enumerate(views)
        for other in views[place + 1 :]
    ]
    panels = [axes for axes in plot_errors(records).axes if axes.get_visible()]
    assert len(panels) == 28
    assert len({axes.get_title() for axes in panels}) == 28
    assert all(len(axes.patches) == 1 for axes in panels)


def test_a_notebook_shows_a_figure_without_pyplot() -> None:
    assert new_figure()._repr_png_().startswith(b"\x89PNG")


def test_names_over_panels_stay_within_them() -> None:
    folder = "runs/2026/a-rather-long-name-of-a-study/checkpoint"
    records = [
        record(f"{folder}-{number}.h5", f"{folder}-other.h5", 0.1)
        | {"ci_low": None, "ci_high": None, "null": None, "source_view": "", "target_view": ""}
        for number in range(6)
    ]
    figure = plot_errors(records)
    figure.draw_without_rendering()
    titles = [axes.title.get_window_extent() for axes in figure.axes]
    panels = [axes.get_window_extent() for axes in figure.axes]
    assert all(title.width < panel.width for title, panel in zip(titles, panels, strict=True))
    assert len({axes.get_title() for axes in figure.axes}) == 6
    assert not any(a.overlaps(b) for i, a in enumerate(titles) for b in titles[:i])


def test_settings_of_the_user_do_not_reach_a_figure(tmp_path: Path) -> None:
    import matplotlib

    records = [record("a", "b", 0.1), record("b", "c", 0.2)]
    write_figure(plot_matrix(make_matrix(records)), tmp_path / "plain.png")
    page = as_svg(plot_matrix(make_matrix(records)), "x")
    with matplotlib.rc_context({"text.usetex": True, "axes.facecolor": "red", "font.size": 30}):
        write_figure(plot_matrix(make_matrix(records)), tmp_path / "styled.png")
        assert as_svg(plot_matrix(make_matrix(records)), "x") == page
        assert matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "styled.png").read_bytes() == (tmp_path / "plain.png").read_bytes()
