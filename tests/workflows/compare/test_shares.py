"""Shuffles of one pair that are shared out: the same numbers as when the pair does them alone."""

from pathlib import Path

import numpy as np
import pytest

from repalign.workflows.compare import shares
from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.executor import InProcess
from repalign.workflows.study.cache import WorkCache
from repalign.workflows.study.remembering import Remembering

ASKED = {
    "plain": {},
    "in-sample only": {"held_out": 0.0},
    "folds, both ways": {"held_out": 0.0, "n_folds": 3, "both_directions": True},
    "beyond groups": {"beyond_groups": True},
    "without ICA": {"maps": ("mean", "rigid", "linear")},
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
    asked = {"maps": ("permutation", "rigid", "ica"), "starts": 1, "n_null": 12} | asked
    settings = CompareSettings(n_gaussian=0, n_halvings=0, n_refits=0, **asked)
    return compare(x, y, groups=groups, settings=settings, executor=executor)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make five shuffles of these rows long enough to be a unit."""
    monkeypatch.setattr(shares, "LONG_SHUFFLES", 5.9)
    monkeypatch.setattr(shares, "shuffle_cost", lambda *told: 1.0)


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_shared_shuffles_give_the_same_numbers(short, monkeypatch, asked) -> None:
    apart = Stages()
    found = compared(apart, **asked)
    monkeypatch.setattr(shares, "LONG_SHUFFLES", 1e30)
    alone = Stages()
    assert found.to_records() == compared(alone, **asked).to_records()
    assert "shuffles" not in alone.keys or not alone.keys["shuffles"]
    n_directions = 2 if asked.get("both_directions") else 1
    # the order that is given and twelve others, five a unit
    assert len(set(apart.keys["shuffles"])) == 3 * n_directions


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


def test_nothing_is_shared_where_nothing_is_shuffled(short) -> None:
    executor = Stages()
    compared(executor, n_null=0)
    assert not executor.keys.get("shuffles")
