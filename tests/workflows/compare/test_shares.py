"""Shuffles of one pair that are shared out: the numbers are those of the pair alone."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from repalign.workflows.compare import shares
from repalign.workflows.compare.pair import Shared
from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.executor import InProcess, ProcessPool
from repalign.workflows.study.cache import WorkCache
from repalign.workflows.study.remembering import Remembering

ASKED = {
    "plain": {},
    "in-sample only": {"held_out": 0.0},
    "folds, both ways": {"held_out": 0.0, "n_folds": 3, "both_directions": True},
    "beyond groups": {"beyond_groups": True},
    "without ICA": {"maps": ("mean", "rigid", "linear")},
    "measures beyond groups": {
        "measures": ("linear-cka", "mutual-knn", "rsa-spearman"),
        "beyond_groups": True,
    },
    "measures alone": {"maps": (), "measures": ("mean-cca", "mutual-knn"), "both_directions": True},
}


class Stages(InProcess):
    """Counts the units of every stage."""

    def __init__(self) -> None:
        self.keys: dict[str, list[str]] = {}

    def map(self, units, machine):
        for unit in units:
            self.keys.setdefault(unit.stage, []).append(unit.key)
        return super().map(units, machine)


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(240, 4))
    # groups of one size but for a few: what is shuffled in-sample is more than what keeps the parts
    groups = np.concatenate([np.repeat(np.arange(50), 4), np.repeat(np.arange(50, 60), 2)])
    groups = np.concatenate([groups, np.full(20, 60)])
    return x, x @ rng.standard_normal((4, 4)) + rng.laplace(size=(240, 4)), groups


def compared(executor=None, **asked):
    x, y, groups = rows()
    asked = {"maps": ("permutation", "rigid", "ica"), "n_null": 12, "n_halves": 2} | asked
    settings = CompareSettings(n_rotations=0, starts=1, **asked)
    return compare(x, y, groups=groups, settings=settings, executor=executor)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make five shuffles of these rows long enough to be a unit."""
    monkeypatch.setattr(shares, "LONG_SHARE", 5.9)
    monkeypatch.setattr(shares, "shuffle_cost", lambda *told: 1.0)
    monkeypatch.setattr(shares, "measure_shuffle_cost", lambda *told: 1.0)


def assert_same(first: list[dict], second: list[dict]) -> None:
    """Alike but for the rounding of sums over the moments of other bundles at once."""
    for one, other in zip(first, second, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if isinstance(value, float):
                assert value == pytest.approx(other[name], rel=1e-9, abs=1e-12), name
            else:
                assert value == other[name], name


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_shared_work_gives_the_same_numbers(short, monkeypatch, asked) -> None:
    apart = Stages()
    found = compared(apart, **asked)
    monkeypatch.setattr(shares, "LONG_SHARE", 1e30)
    alone = Stages()
    assert_same(found.to_records(), compared(alone, **asked).to_records())
    assert not {"shuffles", "measures"} & {stage for stage, keys in alone.keys.items() if keys}
    n_directions = 2 if asked.get("both_directions") else 1
    # the order that is given and twelve others, five a unit
    made = {"shuffles": 3} if asked.get("maps", "some") else {}
    made |= {"measures": 3} if asked.get("measures") else {}
    for stage in ("shuffles", "measures"):
        assert len(set(apart.keys.get(stage, ()))) == made.get(stage, 0) * n_directions


def test_shares_are_kept_and_a_stopped_run_goes_on_from_them(short, tmp_path: Path) -> None:
    expected = compared().to_records()

    class Stopped(Stages):
        def map(self, units, machine):
            if units and units[0].stage == "pairs":
                raise KeyboardInterrupt
            return super().map(units, machine)

    cache = WorkCache(tmp_path / "kept", 2**30)
    with pytest.raises(KeyboardInterrupt):
        compared(Remembering(Stopped(), cache))
    again = Stages()
    assert compared(Remembering(again, cache)).to_records() == expected
    assert not again.keys.get("shuffles")
    assert len(again.keys["pairs"]) == 1


def test_other_processes_give_the_same_to_the_last_bit(monkeypatch) -> None:
    # long enough without pretending, which other processes would not know of
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 64))
    y = x + rng.normal(size=x.shape)
    settings = CompareSettings(maps=("rigid", "linear"), n_null=99, n_halves=4, n_rotations=0)
    monkeypatch.setattr(shares, "LONG_SHARE", 3e8)
    here = Stages()
    expected = compare(x, y, settings=settings, executor=here).to_records()
    assert len(here.keys["shuffles"]) > 2
    with ProcessPool(2) as pool:
        assert compare(x, y, settings=settings, executor=pool).to_records() == expected


def test_nothing_is_shared_where_nothing_is_shuffled(short) -> None:
    executor = Stages()
    compared(executor, n_null=0, n_halves=0)
    assert not executor.keys.get("shuffles")


def test_what_a_budget_chooses_is_part_of_the_pair(short) -> None:
    executor = Stages()
    compared(executor, n_null=None, n_halves=None)
    assert not executor.keys.get("shuffles")


def test_everything_that_is_shared_has_its_place_in_a_pair() -> None:
    assert set(shares.SHARED) == {each.name for each in fields(Shared)}
