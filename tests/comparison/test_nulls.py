import numpy as np
import pytest

from repalign.comparison.results import CompareResult
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings

MAPS = ("mean", "permutation", "rigid", "linear")


def in_groups(n_groups: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two unrelated representations whose rows are much like the others of their group."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    x, y = (
        2 * rng.standard_normal((n_groups, 4))[groups] + rng.standard_normal((groups.size, 4))
        for _ in range(2)
    )
    return x, y, groups


def compared(
    x: np.ndarray, y: np.ndarray, groups: np.ndarray | None, **options: object
) -> CompareResult:
    chosen = {"maps": MAPS, "n_null": 19, "n_rotations": 0, "n_halves": 0} | options
    return compare(x, y, groups=groups, settings=CompareSettings(**chosen))


def p_values(result: CompareResult, column: str = "p_value") -> np.ndarray:
    frame = result.to_frame()
    return frame[frame["map"] != "mean"][column].to_numpy(dtype=float)


def test_unrelated_groups_are_not_found_to_be_related() -> None:
    by_row, by_group = [], []
    for seed in range(10):
        x, y, groups = in_groups(20, 15, seed)
        by_row.append(p_values(compared(x, y, None, held_out=0)))
        by_group.append(p_values(compared(x, y, groups, held_out=0)))
    assert np.mean(np.array(by_row) <= 0.05) > 0.9
    # three maps, hardly independent, in ten trials
    assert np.mean(np.array(by_group) <= 0.05) <= 0.2


def test_few_groups_have_no_held_out_p_value_and_this_is_said() -> None:
    x, _, groups = in_groups(5, 30, 0)
    result = compared(x, x[:, ::-1], groups, n_null=199)
    frame = result.to_frame()
    inside = frame[(frame.split == "in-sample") & (frame["map"] != "mean")]
    assert inside.smallest_p.tolist() == pytest.approx([1 / 120] * 3)
    assert inside.p_value.tolist() == pytest.approx([1 / 120] * 3)
    assert frame[frame.split == "held-out"].p_value.isna().all()
    assert any("held-out, no p-value: 4 of 5 " in w for w in result.warnings)


def test_what_is_shared_beyond_the_groups_is_asked_for() -> None:
    x, y, groups = in_groups(12, 15, 1)
    label_only = y + 3 * np.repeat(x[::15], 15, axis=0)
    result = compared(x, label_only, groups, held_out=0, beyond_groups=True)
    assert (p_values(result) == 0.05).all()
    assert (p_values(result, "p_beyond_groups") > 0.05).all()
    assert np.isnan(p_values(compared(x, y, groups, held_out=0), "p_beyond_groups")).all()


def test_rows_that_are_their_own_groups_have_nothing_beyond_them() -> None:
    x, y, _ = in_groups(30, 1, 1)
    result = compared(x, y, None, held_out=0, beyond_groups=True)
    assert any("no p-value beyond" in warning for warning in result.warnings)


def test_the_observed_error_of_the_null_is_that_of_its_rows() -> None:
    x, y, groups = in_groups(12, 15, 2)
    record = compared(x, y, groups, held_out=0).to_frame().set_index("map").loc["linear"]
    assert record.null_observed == pytest.approx(record.error, rel=1e-6)
    assert record.null_rows == 180


def test_nulls_hold_as_many_rows_as_are_allowed(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(300, 3))
    monkeypatch.setattr("repalign.comparison.draws.MAX_NULL_ROWS", 100)
    result = compared(x, x @ rng.standard_normal((3, 3)), None, maps=("permutation", "rigid"))
    assert (result.to_frame().null_rows == 100).all()
