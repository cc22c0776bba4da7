"""`repalign.compare` against closed forms, independent values and what must never happen."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from repalign import InputError, RowMismatchError
from repalign.comparison.draws import null_rows
from repalign.comparison.results import COLUMNS, CompareResult, ErrorRecord
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings, preset
from repalign.core.ica.settings import IcaSettings
from repalign.core.maps import ALL_MAPS
from repalign.engine.machine import Machine
from repalign.tables.errors import error_table

SPEC_COLUMNS_TEXT = """
source target source_view target_view n_rows source_dim target_dim map split error ci_low ci_high
null p_value efficiency efficiency_low efficiency_high diameter converged seed
"""


def errors(result: CompareResult, split: str = "in-sample") -> dict[str, float | None]:
    return {record.map: record.error for record in result.records if record.split == split}


def orthogonal(dim: int, rng: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((dim, dim)))[0]


def fixture_a() -> tuple[np.ndarray, np.ndarray]:
    rs = np.random.RandomState(0)
    x = rs.laplace(size=(400, 6)) * np.arange(1, 7)
    q, r = np.linalg.qr(rs.randn(6, 6))
    q *= np.sign(np.diag(r))
    return x, 0.7 * x @ q + 0.5 * rs.randn(400, 6) + 5.0


def planted(n: int = 600, dim: int = 6, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    sources = rng.laplace(size=(n, dim)) * np.linspace(1, 3, dim)
    y = 1.5 * sources @ orthogonal(dim, rng) + noise * rng.standard_normal((n, dim))
    return sources @ orthogonal(dim, rng), y


def cheap(**options) -> CompareSettings:
    without = {"n_null": 0, "n_rotations": 0, "n_halves": 0}
    return CompareSettings(**(without | options))


def test_the_corners_of_a_cube_turned_doubled_and_moved() -> None:
    x = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], dtype=float)
    turn = np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1]], dtype=float)
    maps = ("mean", "permutation", "rigid", "linear")
    result = compare(x, 2 * x @ turn + 1, settings=cheap(maps=maps, held_out=0))
    found = errors(result)
    assert found["mean"] == pytest.approx(0.5, abs=1e-12)
    assert found["permutation"] == pytest.approx(0.25, abs=1e-12)
    assert found["rigid"] == pytest.approx(0, abs=1e-12)
    assert found["linear"] == pytest.approx(0, abs=1e-12)
    assert result.records[0].diameter == pytest.approx(2 * np.sqrt(3))


def test_fixture_a_has_the_values_of_independent_arithmetic() -> None:
    x, y = fixture_a()
    result = compare(x, y, settings=cheap(maps=("mean", "permutation", "rigid", "linear")))
    found = errors(result)
    assert found["permutation"] == pytest.approx(0.15524978546, abs=1e-10)
    assert found["rigid"] == pytest.approx(0.02094425981, abs=1e-10)
    assert found["linear"] == pytest.approx(0.02083532007, abs=1e-10)
    assert found["mean"] == pytest.approx(0.15658157637, abs=1e-10)
    assert result.records[0].diameter == pytest.approx(55.340589934392945, rel=1e-12)


def test_fixture_p_a_signed_permutation_with_noise() -> None:
    rs = np.random.RandomState(100)
    x = rs.laplace(size=(400, 6)) * np.arange(1, 7) + 3
    order, signs = rs.permutation(6), np.sign(rs.randn(6))
    y = x[:, order] * signs + 0.5 * rs.randn(400, 6)
    result = compare(x, y, settings=cheap(maps=("permutation", "rigid", "linear")))
    found = errors(result)
    assert found["permutation"] == pytest.approx(0.0161015988, abs=1e-10)
    assert found["rigid"] == pytest.approx(0.0160556441, abs=1e-10)
    assert found["linear"] == pytest.approx(0.0159817302, abs=1e-10)
    planted_matrix = np.zeros((6, 6))
    planted_matrix[order, np.arange(6)] = signs
    np.testing.assert_array_equal(result.maps[0]["permutation"].matrix, planted_matrix)


# Unrelated Gaussian sets, in-sample errors over the diameter, from an independent script.
NULL_TABLE = [
    (200, 100, {"permutation": 0.706, "rigid": 0.456, "linear": 0.389, "mean": 0.554}),
    (1000, 100, {"permutation": 0.714, "rigid": 0.508, "linear": 0.500, "mean": 0.527}),
    (1000, 768, {"permutation": 0.844, "rigid": 0.461, "linear": 0.302, "mean": 0.629}),
    (2000, 768, {"permutation": 0.853, "rigid": 0.541, "linear": 0.492, "mean": 0.627}),
]
# The linear map on 256 columns: rows that fit it, error in-sample and on as many other rows, and
# 2.5 standard deviations of the latter over draws (0.039 near n = p), as the values are of one.
OVERFITTING = [
    (300, 0.220, 1.535, 0.10),
    (600, 0.441, 0.778, 0.025),
    (1200, 0.522, 0.657, 0.025),
    (2400, 0.549, 0.615, 0.02),
]


@pytest.mark.parametrize(("n", "dim", "expected"), NULL_TABLE)
def test_errors_of_unrelated_data(n: int, dim: int, expected: dict[str, float]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, dim)), rng.standard_normal((n, dim))
    found = errors(compare(x, y, settings=cheap(maps=tuple(expected), held_out=0)))
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=0.02), name


@pytest.mark.parametrize(("n", "inside", "outside", "spread"), OVERFITTING)
def test_held_out_errors_of_unrelated_data_fall_with_the_rows(n, inside, outside, spread) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2 * n, 256)), rng.standard_normal((2 * n, 256))
    maps = ("mean", "linear")
    fitted = compare(x[:n], y[:n], settings=cheap(maps=maps, held_out=0))
    halves = compare(x, y, settings=cheap(maps=maps, held_out=0.5))
    assert errors(fitted)["linear"] == pytest.approx(inside, abs=0.02)
    assert errors(halves, "held-out")["linear"] == pytest.approx(outside, abs=spread)
    assert errors(halves, "held-out")["mean"] == pytest.approx(0.583, abs=0.02)


def test_held_out_and_in_sample_tell_apart_an_overfitted_linear_map() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((375, 256)), rng.standard_normal((375, 256))
    maps = ("mean", "rigid", "linear")
    result = compare(x, y, settings=cheap(maps=maps, held_out=0.2))
    inside, outside = errors(result), errors(result, "held-out")
    assert inside["linear"] < 0.6 * inside["mean"]
    assert outside["linear"] > 2 * outside["mean"]
    assert any("worse than predicting" in warning for warning in result.warnings)
    assert any("256 columns" in warning for warning in result.warnings)


def test_identical_inputs_have_no_error_and_no_efficiency() -> None:
    x, _ = planted()
    result = compare(x, x.copy(), settings=cheap())
    for name, error in errors(result).items():
        if name != "mean":
            assert error == pytest.approx(0, abs=1e-6), name
    assert [r.efficiency for r in result.records if r.map == "ica"] == [None, None]
    assert "n/a" in result.table()
    assert any("same values" in warning for warning in result.warnings)


def test_unrelated_inputs_are_inside_the_null_and_this_is_said() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.laplace(size=(500, 5)), rng.laplace(size=(500, 5))
    result = compare(x, y, settings=CompareSettings(n_null=39, n_rotations=19, n_halves=0))
    judged = {r.map: r for r in result.records if r.split == "held-out"}
    for name in ("permutation", "rigid", "linear", "ica"):
        assert judged[name].p_value > 0.05, name
        assert judged[name].error == pytest.approx(judged[name].null, rel=0.05)
    assert any("look unrelated" in warning for warning in result.warnings)


def test_a_planted_rotation_of_non_gaussian_sources_is_found_by_ica() -> None:
    x, y = planted()
    result = compare(x, y, settings=CompareSettings(n_null=19, n_rotations=19, n_halves=4))
    for record in result.records:
        if record.map == "ica":
            assert record.converged
            assert record.efficiency > (0.9 if record.split == "in-sample" else 0.6)
            assert record.p_value == 1 / 20
        if record.map == "ica" and record.split == "held-out":
            assert record.efficiency > record.efficiency_null
            assert record.efficiency_p == 1 / 20
            assert record.efficiency_low <= record.efficiency <= record.efficiency_high


def rotated_twice(latents: np.ndarray, rs: np.random.RandomState) -> list[np.ndarray]:
    return [latents @ np.linalg.qr(rs.randn(20, 20))[0] for _ in range(2)]


def ica_record(result: CompareResult) -> ErrorRecord:
    return next(r for r in result.records if r.map == "ica" and r.split == "in-sample")


def ratio_of_gains(result: CompareResult, split: str = "in-sample") -> float:
    """Return the ICA efficiency, also where it is left out since ICA found nothing."""
    found = errors(result, split)
    return (found["permutation"] - found["ica"]) / (found["permutation"] - found["rigid"])


def test_shared_gaussian_latents_on_the_same_rows() -> None:
    rs = np.random.RandomState(0)
    x, y = rotated_twice(rs.randn(2000, 20), rs)
    result = compare(x, y, settings=cheap(held_out=0, ica=IcaSettings(solver="sklearn")))
    assert ratio_of_gains(result) < 0.30
    assert ica_record(result).efficiency is None
    assert ica_record(result).converged is False


@pytest.mark.parametrize("solver", ["picard", "sklearn"])
def test_shared_gaussian_latents_on_disjoint_rows(solver: str) -> None:
    rs = np.random.RandomState(0)
    x, y = rotated_twice(rs.randn(2000, 20), rs)
    result = compare(x, y, settings=cheap(ica=IcaSettings(solver=solver)))
    assert abs(ratio_of_gains(result, "held-out")) < 0.05


def test_half_of_the_sources_gaussian_has_an_honest_held_out_efficiency() -> None:
    rng = np.random.default_rng(1)
    sources = np.hstack([rng.laplace(size=(4000, 6)) / np.sqrt(2), rng.standard_normal((4000, 6))])
    x, y = (sources @ np.linalg.qr(rng.standard_normal((12, 12)))[0] for _ in range(2))
    result = compare(x, y + 0.1 * rng.standard_normal(y.shape), rotations=19)
    ica = {record.split: record for record in result.records if record.map == "ica"}
    # perfect ICA, which rotates the Gaussian half at random, has .50 (benchmarks/half_gaussian.py)
    assert abs(ica["held-out"].efficiency - 0.5) < 0.15 < ica["in-sample"].efficiency - 0.5
    assert ica["held-out"].efficiency_low < 0.5 < ica["held-out"].efficiency_high


def test_laplace_latents_on_disjoint_rows() -> None:
    rs = np.random.RandomState(0)
    x, y = rotated_twice(rs.laplace(size=(2000, 20)), rs)
    result = compare(x, y, settings=cheap())
    assert 0.50 <= ratio_of_gains(result, "held-out") <= 0.80


def test_unrelated_latents() -> None:
    rs = np.random.RandomState(0)
    x, y = (rs.laplace(size=(2000, 20)) @ np.linalg.qr(rs.randn(20, 20))[0] for _ in range(2))
    assert ica_record(compare(x, y, settings=cheap(held_out=0))).efficiency < 0.06


def test_laplace_latents_have_an_efficiency_near_one() -> None:
    rs = np.random.RandomState(0)
    latents = rs.laplace(size=(2000, 20))
    x, y = rotated_twice(latents, rs)
    record = ica_record(compare(x, y, settings=cheap(held_out=0)))
    assert record.efficiency > 0.95
    assert record.matched_correlation > 0.99


@pytest.mark.parametrize("tolerance", [3e-5, 1e-6])
def test_the_order_of_the_rows_changes_nothing(tolerance: float) -> None:
    x, y = planted(300)
    ids = [f"sample {i}" for i in range(300)]
    order = np.random.default_rng(1).permutation(300)
    import pandas as pd

    settings = cheap(ica=IcaSettings(tolerance=tolerance))
    first = compare(pd.DataFrame(x, ids), pd.DataFrame(y, ids), settings=settings)
    shuffled_y = pd.DataFrame(y[order], [ids[i] for i in order])
    second = compare(pd.DataFrame(x, ids), shuffled_y, settings=settings)
    for a, b in zip(first.records, second.records, strict=True):
        # Rows in another order are other content, whose ICA starts elsewhere. It ends at the same
        # components, as closely as the search was told to converge.
        near = {"abs": tolerance} if a.map == "ica" else {"rel": 1e-12}
        assert a.error == pytest.approx(b.error, **near)
    assert not any("row order" in warning for warning in first.warnings)


def test_a_missing_row_is_refused_or_left_out_and_recorded() -> None:
    import pandas as pd

    x, y = planted(300)
    ids = [f"s{i}" for i in range(300)]
    short = pd.DataFrame(y[1:], ids[1:])
    with pytest.raises(RowMismatchError, match="s0"):
        compare(pd.DataFrame(x, ids), short, settings=cheap())
    result = compare(pd.DataFrame(x, ids), short, settings=cheap(on_mismatch="intersect"))
    assert result.records[0].n_rows == 299
    assert result.records[0].conventions["on_mismatch"] == "intersect"
    assert result.to_dict()["pairs"][0]["join"]["n_common"] == 299


def test_rows_of_a_group_are_never_on_both_sides() -> None:
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(30), 20)
    centres = rng.standard_normal((30, 4))
    x = centres[documents] + 0.01 * rng.standard_normal((600, 4))
    y = rng.standard_normal((30, 4))[documents] + 0.01 * rng.standard_normal((600, 4))
    maps = ("mean", "linear")
    by_row = compare(x, y, settings=cheap(maps=maps))
    by_document = compare(x, y, groups=documents, settings=cheap(maps=maps))
    # 30 independent documents only look like 600 rows: rows of one document give it away
    assert errors(by_document, "held-out")["linear"] > errors(by_row, "held-out")["linear"]


def test_held_out_intervals_leave_out_the_groups_that_are_judged() -> None:
    x, y = planted()
    settings = CompareSettings(maps=("rigid",), n_null=0, n_halves=0)
    result = compare(x, y, groups=np.arange(600) % 60, settings=settings)
    assert {r.split: r.n_rows / r.n_groups for r in result.records} == {
        "in-sample": 10,
        "held-out": 10,
    }


@pytest.mark.parametrize("policy", ["zero-pad", "pca"])
def test_widths_that_differ_follow_the_policy(policy: str) -> None:
    x, y = planted()
    wide = np.hstack([y, 0.01 * np.random.default_rng(0).standard_normal((600, 3))])
    result = compare(x, wide, settings=cheap(width_policy=policy, maps=ALL_MAPS))
    found = errors(result)
    assert ("identity" in found) == (policy == "pca")
    assert found["rigid"] < 0.02
    assert any(f"policy {policy}" in warning for warning in result.warnings)
    assert {(r.source_dim, r.target_dim) for r in result.records} == {(6, 9)}


def test_widths_that_differ_can_be_refused() -> None:
    x, y = planted()
    with pytest.raises(InputError, match=r"6 columns .*target 4"):
        compare(x, y[:, :4], settings=cheap(width_policy="refuse"))


def test_both_directions_have_their_own_diameters() -> None:
    x, y = planted()
    result = compare(x, y, settings=cheap(maps=("rigid",), held_out=0, both_directions=True))
    forth, back = result.records
    assert (forth.source, forth.target) == (back.target, back.source)
    assert forth.diameter != back.diameter


def test_many_inputs_are_compared_pair_by_pair_or_against_one() -> None:
    x, y = planted()
    pairs = compare(x, y, x + y, settings=cheap(maps=("rigid",), held_out=0))
    assert [(r.source, r.target) for r in pairs.records] == [
        ("array 1", "array 2"),
        ("array 1", "array 3"),
        ("array 2", "array 3"),
    ]
    one = compare(y, x + y, against=x, settings=cheap(maps=("rigid",), held_out=0))
    assert [(r.source, r.target) for r in one.records] == [
        ("against", "array 1"),
        ("against", "array 2"),
    ]


def test_parts_of_one_group_have_no_half_samples_and_say_so() -> None:
    x, y = planted(240)
    groups = np.repeat(np.arange(12), 20)
    by_folds = {
        folds: compare(x, y, groups=groups, folds=folds, maps="rigid", null=0) for folds in (5, 12)
    }
    for folds, result in by_folds.items():
        in_sample = next(r for r in result.records if (r.map, r.split) == ("rigid", "in-sample"))
        has_interval = in_sample.ci_low is not None
        is_refused = any("fewer folds" in warning for warning in result.warnings)
        assert (has_interval, is_refused) == ((True, False) if folds == 5 else (False, True))


def test_folds_judge_every_row_once() -> None:
    x, y = planted()
    result = compare(x, y, settings=cheap(n_folds=4))
    held_out = [record for record in result.records if record.split == "held-out"]
    assert {record.n_rows for record in held_out} == {600}
    assert {record.n_folds for record in held_out} == {4}
    assert {record.diameter for record in result.records} == {result.records[0].diameter}


def test_one_outlying_row_is_warned_of() -> None:
    x, y = planted()
    x[7] *= 100
    y[7] *= 100
    result = compare(x, y, settings=cheap(maps=("rigid",)))
    assert any("outlying" in warning for warning in result.warnings)
    assert "7" in result.pairs[0].diameter_rows


def test_the_record_has_the_columns_that_users_rely_on_in_their_order() -> None:
    assert list(COLUMNS[:20]) == SPEC_COLUMNS_TEXT.split()
    x, y = planted()
    frame = compare(x, y, settings=cheap()).to_frame()
    assert list(frame.columns) == list(COLUMNS)


def test_every_column_is_explained_and_every_explanation_has_a_column() -> None:
    text = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    table = text.split("| column | meaning |")[1].split("\n\n")[0]
    names = [cells for line in table.splitlines()[2:] for cells in [line.split("|")[1]]]
    assert [name for cell in names for name in re.findall(r"`([^`]+)`", cell)] == list(COLUMNS)


def test_every_convention_that_is_asked_for_is_recorded() -> None:
    x, y = planted(200)
    ica = IcaSettings(solver="sklearn", contrast="cube", max_passes=50)
    settings = cheap(ica=ica, maps=("rigid", "ica"))
    rigid, fitted = compare(x, y, settings=settings).to_records()[:2]
    told = {"ica_solver": "sklearn", "ica_contrast": "cube", "ica_whitening": "pca"}
    told |= {"ica_passes": 50}
    assert {name: fitted[name] for name in told} == told
    assert {rigid[name] for name in told} == {None}


def test_the_json_is_complete_and_plain() -> None:
    x, y = planted()
    result = compare(x, y, settings=CompareSettings(n_null=9, n_rotations=19, n_halves=2))
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False, default=float))
    assert data["settings"]["seed"] == 0
    assert data["settings"]["permutation_cost"] == "inner-product"
    assert data["versions"].keys() >= {"repalign", "numpy", "torch"}
    pair = data["pairs"][0]
    assert len(pair["source"]["fingerprint"]) == 64
    assert pair["ica"][0]["rank"] == 6
    assert len(pair["null_errors"]["held-out/rigid"]) == 9


def test_same_seed_same_result_other_seed_other_split() -> None:
    x, y = planted(300)
    few = CompareSettings(n_null=9, n_rotations=1, n_halves=2)
    first, again, other = (
        compare(x, y, settings=replace(few, seed=seed)).to_records() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_the_papers_protocol_is_four_maps_in_sample() -> None:
    x, y = planted()
    result = compare(x, y, settings=preset("paper"))
    assert [(r.map, r.split, r.conventions["ica_solver"]) for r in result.records] == [
        ("permutation", "in-sample", None),
        ("rigid", "in-sample", None),
        ("linear", "in-sample", None),
        ("ica", "in-sample", "sklearn"),
    ]


def test_the_quick_setting_has_no_held_out_and_no_null() -> None:
    x, y = planted()
    records = compare(x, y, settings=preset("quick")).records
    assert {(record.split, record.null) for record in records} == {("in-sample", None)}


@pytest.mark.slow
def test_the_audit_has_every_map_fold_and_null() -> None:
    x, y = planted(400)
    result = compare(x, y, settings=preset("audit"))
    assert {record.map for record in result.records} == set(ALL_MAPS)
    assert {record.n_null for record in result.records} == {99}
    assert len(result.pairs[0].rotated_efficiencies) == 99
    assert result.pairs[0].ica[0].agreement > 0.9


def test_layernorm_rows_and_dead_columns_have_their_rank() -> None:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(800, 10))
    x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    y = np.hstack([x @ orthogonal(10, rng), np.zeros((800, 2))])
    record = next(r for r in compare(x, y, settings=cheap()).records if r.map == "ica")
    assert (record.source_rank, record.target_rank) == (9, 9)
    assert record.error < 0.5


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.ones((3, 2))], "got 1 set"),
        ([np.ones((3, 2)), np.ones((4, 2))], "3.*4"),
        ([np.ones((3, 2)), np.full((3, 2), np.nan)], "row 0"),
    ],
)
def test_inputs_that_cannot_be_compared_are_refused(arrays, message: str) -> None:
    with pytest.raises((InputError, RowMismatchError), match=message):
        compare(*arrays)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maps": ("affine",)}, "maps: got affine"),
        ({"maps": ()}, "maps: got none"),
        ({"held_out": 1.0}, "held_out: got 1.0"),
        ({"width_policy": "padd"}, "width_policy: got 'padd'"),
        ({"n_null": -1}, "n_null: got -1"),
        ({"ica": "sklearn"}, "ica: got 'sklearn'"),
        ({"n_folds": 1}, "n_folds: got 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CompareSettings(**options)


def test_groups_must_be_one_a_row() -> None:
    x, y = planted()
    with pytest.raises(InputError, match=r"groups: got 3 .*600 rows"):
        compare(x, y, groups=[1, 2, 3])


@pytest.mark.parametrize("value", [1.0, 0.1, 1 / 3, 7.7e5])
@pytest.mark.parametrize("side", [0, 1])
def test_a_collapsed_encoder_has_rank_zero_and_is_named(value: float, side: int) -> None:
    rng = np.random.default_rng(0)
    sides = [rng.standard_normal((300, 4)), rng.standard_normal((300, 5))]
    sides[side] = np.tile(value * rng.standard_normal(4), (300, 1))
    result = compare(*sides, settings=cheap(measures=("all",), n_null=19), names=("A", "B"))
    assert "ica" not in {record.map for record in result.records}
    by_name = {r.measure: r for r in result.measures if r.split == "in-sample"}
    nothing = {name for name in by_name if name not in ("mutual-knn-10", "procrustes-angle")}
    assert {by_name[name].value for name in nothing} == {0.0}
    assert by_name["procrustes-angle"].value == pytest.approx(np.pi / 2)
    assert all(by_name[name].p_value == 1.0 for name in nothing)
    assert any(f"{'AB'[side]}: all 300 " in text for text in result.warnings)
    assert not any("unrelated" in text for text in result.warnings)


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 3.0, 7.7, 1000.0])
def test_a_constant_column_changes_no_measure(value: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 6))
    y = x @ rng.standard_normal((6, 4)) + rng.standard_normal((2000, 4))
    settings = cheap(maps=("none",), measures=("mean-r2", "mcc-pearson"))
    constant = np.full((2000, 1), value)
    results = [
        compare(x, np.hstack([y, column]), settings=settings) for column in (0 * constant, constant)
    ]
    zero, other = ([record.value for record in result.measures] for result in results)
    assert zero == pytest.approx(other, rel=1e-12)
    both = compare(np.hstack([x, constant]), np.hstack([y, constant]), settings=settings)
    assert [record.value for record in both.measures][1] == pytest.approx(
        compare(np.hstack([x, 0 * constant]), np.hstack([y, 0 * constant]), settings=settings)
        .measures[1]
        .value,
        rel=1e-12,
    )


def test_one_ruler_serves_both_splits() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_t(3, size=(300, 4))
    result = compare(x, x + rng.standard_normal((300, 4)), settings=cheap(maps=("mean", "rigid")))
    assert len({(r.diameter, r.rms_radius, r.diameter_99) for r in result.records}) == 1
    for record in result.records:
        norm = record.error_over_rms_radius * record.rms_radius
        assert norm == pytest.approx(record.error * record.diameter)
    inside, outside = errors(result)["mean"], errors(result, "held-out")["mean"]
    # by the diameter of the held-out rows alone it read half as much again
    assert outside == pytest.approx(inside, rel=0.15)


def test_a_handful_of_rows_gives_defined_or_empty_values() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5, 1)), rng.standard_normal((5, 1))
    result = compare(x, y, settings=CompareSettings(n_null=9, n_rotations=0))
    assert all(np.isfinite(record.error) for record in result.records)


def test_least_squares_is_as_good_as_numpys_where_the_moments_are_not() -> None:
    rng = np.random.default_rng(0)
    scales = np.logspace(0, -9, 6)
    x = rng.standard_normal((400, 6)) * scales @ orthogonal(6, rng)
    y = rng.standard_normal((400, 6)) + x @ np.linalg.pinv(x) @ rng.standard_normal((400, 6))
    centred, target = x - x.mean(0), y - y.mean(0)
    best = centred @ np.linalg.lstsq(centred, target, rcond=None)[0]
    result = compare(x, y, settings=cheap(maps=("linear",)))
    expected = np.linalg.norm(best - target, axis=1).mean() / result.records[0].diameter
    assert result.records[0].error == pytest.approx(expected, rel=1e-6)


def test_a_map_that_the_table_does_not_know_is_an_error_and_no_gap() -> None:
    records = compare(*planted(), settings=cheap(maps=("rigid",), held_out=0)).to_records()
    with pytest.raises(InputError, match="map: got affine"):
        error_table([*records, records[0] | {"map": "affine"}])


def test_nulls_keep_within_the_memory() -> None:
    x, y = planted(2000)
    settings = CompareSettings(maps=("rigid",), n_null=9)
    roomy, tight = (
        compare(x, y, settings=settings, machine=Machine(memory_bytes=size)).records[0]
        for size in (2**31, 400_000)
    )
    # each part of the split takes its share, rounded down
    assert roomy.null_rows == 2000
    assert 0 <= 400_000 // (3 * 8 * 12) - tight.null_rows <= 1
    assert tight.null == pytest.approx(roomy.null, rel=0.05)
    with pytest.raises(InputError, match="null on 50 rows"):
        null_rows((6, 6), 2000, Machine(memory_bytes=14_000))


@pytest.mark.parametrize("scale", [1e-25, 1e22])
def test_no_number_hangs_on_the_unit_of_the_values(scale: float) -> None:
    x, y = (values[:120, :3] for values in fixture_a())
    settings = CompareSettings(
        maps=("mean", "rigid", "linear", "ica"), measures=("linear-cka", "unbiased-cka"),
        n_null=2, n_rotations=19, n_halves=2,
    )  # fmt: skip
    usual, scaled = (compare(x * by, y * by, settings=settings) for by in (1.0, scale))
    for was, now in zip(usual.to_records(), scaled.to_records(), strict=True):
        for name in ("error", "value", "null", "efficiency", "p_value"):
            expected = was.get(name)
            # ICA is fitted in single precision, and from other bits it ends a little elsewhere
            assert now.get(name) == (
                None if expected is None else pytest.approx(expected, abs=1e-4)
            )


@pytest.mark.parametrize(("scale", "side"), [(1e-162, "at least"), (1e40, "at most")])
def test_values_too_small_or_large_for_their_powers_are_refused(scale: float, side: str) -> None:
    x, y = fixture_a()
    with pytest.raises(InputError, match=f"{side} 1e.*rescale the values"):
        compare(x * scale, y * scale, maps=["mean", "rigid"])


def test_a_linear_map_that_fits_every_half_exactly_has_no_interval() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 60, 30))
    records = compare(x, y, maps=["rigid", "linear"], split=0, null=0).records
    low = {record.map: record.ci_low for record in records}
    assert low["linear"] is None
    assert low["rigid"] is not None
