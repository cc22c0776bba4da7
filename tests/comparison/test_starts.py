from types import SimpleNamespace

import numpy as np
import pytest
import torch

from repalign.comparison.results import CompareResult
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings, preset
from repalign.comparison.space import affordable_starts, ica_lanes
from repalign.core.ica import fit
from repalign.core.ica.settings import IcaSettings
from repalign.engine.machine import Machine
from repalign.engine.threads import run_in_threads

EFFICIENCY = ("permutation", "rigid", "ica")


def ica_rows(result: CompareResult) -> dict[str, dict[str, object]]:
    return {row["split"]: row for row in result.to_records() if row["map"] == "ica"}


def compared(x: np.ndarray, y: np.ndarray, **options: object) -> CompareResult:
    chosen = {"maps": EFFICIENCY, "n_null": 0, "n_rotations": 0, "n_halves": 0, "held_out": 0}
    chosen |= options
    return compare(x, y, settings=CompareSettings(**chosen))


def turned(sources: np.ndarray, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    d = sources.shape[1]
    x, y = (sources @ np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    return x, y + noise * rng.standard_normal(y.shape)


def rugged() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    rng.laplace(size=(1500, 5))
    return turned(np.hstack([rng.laplace(size=(300, 2)), rng.standard_normal((300, 6))]))


def starts_of(row: dict[str, object]) -> tuple[object, object]:
    return row["source_starts"], row["target_starts"]


def test_starts_that_agree_are_two_and_others_six() -> None:
    clear = ica_rows(compared(*turned(np.random.default_rng(0).laplace(size=(1500, 5)))))
    assert starts_of(clear["in-sample"]) == (2, 2)
    result = compared(*rugged())
    assert starts_of(ica_rows(result)["in-sample"]) == (6, 6)
    assert any("starts of ICA" in warning for warning in result.warnings)


def test_the_error_is_a_mean_over_pairs_of_starts_and_the_map_that_of_the_best() -> None:
    rng = np.random.default_rng(0)
    x, y = turned(np.hstack([rng.laplace(size=(300, 2)), rng.standard_normal((300, 6))]))
    result = compared(x, y, starts=6)
    row = ica_rows(result)["in-sample"]
    best = np.linalg.norm(result.maps[0]["ica"].apply(x) - y, axis=1).mean() / row["diameter"]
    assert row["error"] != pytest.approx(best, rel=1e-6)
    assert row["error"] == pytest.approx(best, rel=0.2)


def test_quick_and_the_paper_take_one_start_and_say_so() -> None:
    x, y = turned(np.random.default_rng(0).laplace(size=(300, 3)))
    for name in ("quick", "paper"):
        result = compare(x, y, settings=preset(name))
        row = ica_rows(result)["in-sample"]
        assert row["source_starts"] == 1
        assert "one start" in result.table()


def test_large_sizes_and_sklearn_take_one_start() -> None:
    assert affordable_starts(50_000, 384, CompareSettings()) == 1
    assert affordable_starts(2500, 64, CompareSettings()) >= 6
    assert affordable_starts(100, 3, CompareSettings(ica=IcaSettings(solver="sklearn"))) == 1


def test_few_rows_have_no_efficiency_and_no_matches_and_the_reason_is_said() -> None:
    x, y = (np.random.default_rng(seed).standard_normal((60, 180)) for seed in (1, 2))
    result = compared(x, y)
    row = ica_rows(result)["in-sample"]
    assert row["efficiency"] is None
    text = result.table().replace("\n  ", " ")
    assert "0 components less" in text
    assert "says nothing" in text
    assert any(warning.startswith("no ICA efficiency") for warning in result.warnings)


def test_a_target_that_does_not_vary_is_said_and_not_called_unrelated() -> None:
    x = np.random.default_rng(0).standard_normal((50, 3))
    settings = CompareSettings(maps=("mean", "rigid"), n_null=39)
    result = compare(x, np.ones((50, 3)), settings=settings)
    assert any("collapsed" in text for text in result.warnings)
    assert not any("look unrelated" in text for text in result.warnings)


def test_the_rows_of_a_view_are_whitened_once_for_all_its_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared = []
    original = fit.prepare

    def counted(*rows: object, **how: object) -> object:
        prepared.append(how)
        return original(*rows, **how)

    monkeypatch.setattr(fit, "prepare", counted)
    rng = np.random.default_rng(0)
    row = ica_rows(compared(*turned(rng.standard_normal((300, 16)))))["in-sample"]
    assert sorted(starts_of(row)) == [2, 6]
    assert len(prepared) == 2


def test_large_starts_are_searched_side_by_side_to_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = turned(np.random.default_rng(0).standard_normal((300, 6)))
    alone = ica_rows(compared(x, y))
    monkeypatch.setattr("repalign.comparison.space.is_small", lambda *size: False)
    lanes = []

    def counted(*given: object, **how: object) -> list[object]:
        lanes.append(how["lanes"])
        return run_in_threads(*given, **how)

    monkeypatch.setattr("repalign.engine.engine.run_in_threads", counted)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert ica_rows(compared(x, y)) == alone
    finally:
        torch.set_num_threads(before)
    assert set(lanes) == {2}


@pytest.mark.parametrize(
    ("shape", "memory", "options", "lanes"),
    [
        ((50_000, 384), 2**31, {}, 2),
        ((50_000, 384), 2**28, {}, 1),
        ((3000, 20), 2**31, {}, 1),
        ((50_000, 384), 2**31, {"ica": IcaSettings(solver="sklearn")}, 1),
    ],
)
def test_starts_share_the_cores_where_they_are_large_and_memory_holds_them(
    shape: tuple[int, int], memory: int, options: dict[str, object], lanes: int
) -> None:
    view = SimpleNamespace(n_rows=shape[0], dim=shape[1])
    task = SimpleNamespace(view=view, n_rows=shape[0], settings=CompareSettings(**options))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert ica_lanes(task, Machine(memory_bytes=memory)) == lanes
    finally:
        torch.set_num_threads(before)


def test_starts_that_are_asked_for_are_made_in_every_split() -> None:
    result = compared(*rugged(), held_out=0.2, starts=4)
    assert {starts_of(row) for row in ica_rows(result).values()} == {(4, 4)}


def test_starts_of_a_pair_are_its_own_whatever_else_is_compared() -> None:
    x, y = rugged()
    z = turned(np.random.default_rng(5).laplace(size=(300, 8)))[0]
    settings = CompareSettings(maps=EFFICIENCY, n_null=0, n_rotations=0, held_out=0, n_halves=0)
    of_three = compare(x, y, z, settings=settings, names=("x", "y", "z"))
    alone = compare(x, z, settings=settings, names=("x", "z"))
    chosen = [row for row in of_three.to_records() if (row["source"], row["target"]) == ("x", "z")]
    assert chosen == alone.to_records()
