from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TypeVar

import numpy as np
import pytest
import torch

from repalign.core.ica.settings import IcaSettings
from repalign.workflows.compare.ica.starts import IcaOfSpace, StartUnit
from repalign.workflows.compare.results import CompareResult
from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings, preset
from repalign.workflows.compare.spaces import affordable_starts
from repalign.workflows.executor import Executor, InProcess, Unit
from repalign.workflows.machine import Machine
from repalign.workflows.side_by_side import run_side_by_side

T = TypeVar("T")

EFFICIENCY = ("permutation", "rigid", "ica")


def ica_rows(result: CompareResult) -> dict[str, dict[str, object]]:
    return {row["split"]: row for row in result.to_records() if row["map"] == "ica"}


def compared(
    x: np.ndarray, y: np.ndarray, *, executor: Executor | None = None, **options: object
) -> CompareResult:
    chosen = {"maps": EFFICIENCY, "n_null": 0, "n_gaussian": 0, "n_halves": 0, "held_out": 0}
    chosen |= options
    return compare(x, y, settings=CompareSettings(**chosen), executor=executor)


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


def test_starts_that_agree_are_two_and_others_six_or_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    clear = ica_rows(compared(*turned(np.random.default_rng(0).laplace(size=(1500, 5)))))
    assert starts_of(clear["in-sample"]) == (2, 2)
    assert clear["in-sample"]["efficiency_start_half_width"] < 0.01
    ten = ica_rows(compared(*rugged()))["in-sample"]
    assert starts_of(ten) == (10, 10)
    half = (ten["efficiency_high"] - ten["efficiency_low"]) / 2
    assert half > ten["efficiency_start_half_width"] > 0.1
    monkeypatch.setattr("repalign.workflows.compare.shares.NARROW", 0.3)
    six = ica_rows(compared(*rugged()))["in-sample"]
    assert starts_of(six) == (6, 6)
    assert 0.3 > six["efficiency_start_half_width"] > ten["efficiency_start_half_width"]


def test_tables_tell_how_far_another_run_of_starts_may_be_off() -> None:
    result = compared(*rugged(), held_out=0.2, n_refits=0, starts=6)
    inside, outside = ica_rows(result).values()
    share = inside["efficiency_start_half_width"]
    assert share > 0.01
    assert outside["efficiency_start_half_width"] is None  # n/a: nothing is identifiable
    texts = result.texts()
    for row, more in ((inside, f", % eff. ± {100 * share:.0f}"), (outside, "")):
        error = f"{row['start_half_width']:.3f}".removeprefix("0")
        told = f"{row['split']}, another run of starts: ICA ± {error}{more}\n"
        assert all(told in texts[name]() for name in ("table", "markdown", "latex"))
    assert "another run of starts" not in compared(*rugged(), starts=1).table()


def test_a_warning_tells_where_starts_move_the_efficiency_more_than_rows_do() -> None:
    said = "in-sample, another run of starts of ICA may move the efficiency by"
    result = compared(*rugged(), starts=6)
    row = ica_rows(result)["in-sample"]
    by_starts = row["efficiency_start_half_width"]
    half = (row["efficiency_high"] - row["efficiency_low"]) / 2
    by_rows = np.sqrt(half**2 - by_starts**2)
    assert by_starts > by_rows
    told = f"{said} {100 * by_starts:.0f} points, and other rows by {100 * by_rows:.0f};"
    assert any(warning.startswith(told) for warning in result.warnings)
    clear = compared(*turned(np.random.default_rng(0).laplace(size=(1500, 5))))
    assert not any(said in warning for warning in clear.warnings)


def test_the_error_is_a_mean_over_pairs_of_starts_and_the_map_that_of_the_best() -> None:
    rng = np.random.default_rng(0)
    x, y = turned(np.hstack([rng.laplace(size=(300, 2)), rng.standard_normal((300, 6))]))
    result = compared(x, y, starts=6)
    row = ica_rows(result)["in-sample"]
    best = np.linalg.norm(result.maps[0]["ica"].apply(x) - y, axis=1).mean() / row["diameter"]
    assert row["error"] != pytest.approx(best, rel=1e-6)
    assert abs(row["error"] - best) < 3 * row["start_half_width"]


def test_quick_and_the_paper_take_one_start_and_say_so() -> None:
    x, y = turned(np.random.default_rng(0).laplace(size=(300, 3)))
    for name in ("quick", "paper"):
        result = compare(x, y, settings=preset(name))
        row = ica_rows(result)["in-sample"]
        assert row["source_starts"] == 1
        assert row["start_half_width"] is None
        assert "one start: its own chance is not known" in result.table().replace("\n  ", " ")


def test_large_sizes_and_sklearn_take_one_start() -> None:
    assert affordable_starts(50_000, 384, CompareSettings()) == 1
    assert affordable_starts(2500, 64, CompareSettings()) >= 6
    assert affordable_starts(100, 3, CompareSettings(ica=IcaSettings(solver="sklearn"))) == 1


@pytest.mark.parametrize("ica_rows_used", ["same", "disjoint"])
def test_twins_are_judged_in_every_split_like_the_pair(ica_rows_used: str) -> None:
    x, y = turned(np.random.default_rng(0).laplace(size=(400, 4)))
    result = compared(x, y, n_gaussian=3, held_out=0.25, ica_rows=ica_rows_used)
    for row in ica_rows(result).values():
        assert row["n_twins"] == 3
        assert row["efficiency_null_sd"] > 0
        assert row["efficiency_p"] == 0.25
    twins = result.pairs[0].gaussian_efficiencies
    assert set(twins) == {"in-sample", "held-out"}


@pytest.mark.slow
def test_twins_that_are_units_of_their_own_give_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = turned(np.random.default_rng(0).laplace(size=(300, 4)))
    asked = {"n_gaussian": 3, "held_out": 0.25, "both_directions": True}
    inside = Counting()
    expected = compared(x, y, executor=inside, **asked)
    assert inside.stages["twins"] == 0  # of so few rows they are none
    monkeypatch.setattr("repalign.workflows.compare.shares.LONG_TWIN", 0)
    apart = Counting()
    assert compared(x, y, executor=apart, **asked).to_records() == expected.to_records()
    assert apart.stages["twins"] == 2 * 3
    none = Counting()
    compared(x, y, executor=none, **asked | {"n_gaussian": 0})
    assert none.stages["twins"] == 0


def test_few_rows_have_no_efficiency_and_no_matches_and_the_reason_is_said() -> None:
    x, y = (np.random.default_rng(seed).standard_normal((60, 180)) for seed in (1, 2))
    result = compared(x, y)
    row = ica_rows(result)["in-sample"]
    assert row["efficiency"] is None
    assert row["efficiency_start_half_width"] is None
    text = result.table().replace("\n  ", " ")
    assert "% eff. ±" not in text
    assert "0 components less Gaussian than chance" in text
    assert "which says nothing: none is less Gaussian than chance on both sides" in text
    assert any(
        warning.startswith("no ICA efficiency: neither side has a component that is less Gaussian")
        for warning in result.warnings
    )


def test_a_target_that_does_not_vary_is_said_and_not_called_unrelated() -> None:
    x = np.random.default_rng(0).standard_normal((50, 3))
    settings = CompareSettings(maps=("mean", "rigid"), n_null=39)
    result = compare(x, np.ones((50, 3)), settings=settings)
    assert any("collapsed" in text for text in result.warnings)
    assert not any("look unrelated" in text for text in result.warnings)


class Counting(InProcess):
    """Does as one process does, and remembers what it did: the starts of every round by name."""

    def __init__(self) -> None:
        self.rounds: list[list[str]] = []
        self.stages: Counter[str] = Counter()

    def map(self, units: Sequence[Unit[T]], machine: Machine) -> list[T]:
        self.stages.update(unit.stage for unit in units)
        keys = [unit.key for unit in units if unit.stage == "ICA"]
        self.rounds += [keys] if keys else []
        return super().map(units, machine)


def test_every_start_is_a_unit_and_the_rows_of_a_space_are_whitened_once_a_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whitened = []
    original = IcaOfSpace.prepare
    monkeypatch.setattr(
        IcaOfSpace,
        "prepare",
        lambda ica, machine: (whitened.append(ica.key), original(ica, machine))[1],
    )
    rng = np.random.default_rng(0)
    x, y = turned(rng.standard_normal((300, 16)))
    executor = Counting()
    result = compared(x, y, executor=executor)
    first, more = executor.rounds
    row = ica_rows(result)["in-sample"]
    made = row["source_starts"], row["target_starts"]
    assert sorted(made) == [2, 6]
    assert (len(first), len({*first, *more})) == (4, sum(made))
    assert len(whitened) == 2  # the target was the last, and is not whitened again
    assert row == ica_rows(compared(x, y))["in-sample"]


def test_large_starts_are_searched_side_by_side_to_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = turned(np.random.default_rng(0).standard_normal((300, 6)))
    alone = ica_rows(compared(x, y))
    monkeypatch.setattr("repalign.workflows.compare.ica.starts.is_small", lambda *size: False)
    lanes = []

    def counted(*given: object, **how: object) -> list[object]:
        lanes.append(how["lanes"])
        return run_side_by_side(*given, **how)

    monkeypatch.setattr("repalign.workflows.executor.run_side_by_side", counted)
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
    space = SimpleNamespace(n_rows=shape[0], dim=shape[1])
    ica = SimpleNamespace(space=space, n_rows=shape[0], settings=CompareSettings(**options))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert StartUnit(ica, 0).lanes(Machine(memory_bytes=memory)) == lanes
    finally:
        torch.set_num_threads(before)


def test_all_splits_and_twins_of_a_pair_have_its_ten_starts() -> None:
    result = compared(*rugged(), held_out=0.2, n_refits=0, n_gaussian=2)
    assert {starts_of(row) for row in ica_rows(result).values()} == {(10, 10)}
    assert starts_of(ica_rows(compared(*rugged(), starts=6))["in-sample"]) == (6, 6)


def test_starts_of_a_pair_are_its_own_whatever_else_is_compared() -> None:
    x, y = rugged()
    z = turned(np.random.default_rng(5).laplace(size=(300, 8)))[0]
    settings = CompareSettings(maps=EFFICIENCY, n_null=0, n_gaussian=0, held_out=0, n_refits=0)
    of_three = compare(x, y, z, settings=settings, names=("x", "y", "z"))
    alone = compare(x, z, settings=settings, names=("x", "z"))
    chosen = [row for row in of_three.to_records() if (row["source"], row["target"]) == ("x", "z")]
    assert chosen == alone.to_records()
