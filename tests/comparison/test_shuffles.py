"""Shuffles of few pairs are shared out and kept: the numbers are those of one process."""

from pathlib import Path

import numpy as np
import pytest

from repalign.comparison.run import compare
from repalign.engine import engine as engines
from repalign.engine.cache import Cache
from repalign.engine.engine import Engine, ProcessPool

ASKED = {
    "plain": {},
    "in-sample only": {"split": 0.0},
    "folds, both ways": {"folds": 3, "both": True},
    "measures beyond groups": {
        "measures": ("linear-cka", "mutual-knn", "rsa-spearman"),
        "beyond_groups": True,
    },
}


def compared(executor: Engine | None = None, **options: object) -> list[dict]:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(240, 4))
    y = x @ rng.standard_normal((4, 4)) + rng.laplace(size=(240, 4))
    # of one size but for a few: in-sample more can change places than within the parts
    groups = np.concatenate([np.repeat(np.arange(50), 4), np.repeat(np.arange(50, 60), 2)])
    groups = np.concatenate([groups, np.full(20, 60)])
    options = {"maps": ("permutation", "rigid", "ica"), "null": 40, "halves": 2} | options
    result = compare(x, y, groups=groups, rotations=0, starts=1, executor=executor, **options)
    return result.to_records()


def test_other_processes_give_the_same_to_the_last_bit() -> None:
    with ProcessPool(2) as pool:
        for options in ASKED.values():
            assert compared(pool, **options) == compared(**options)


def test_long_shuffles_are_kept_and_a_stopped_run_goes_on_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = compared()
    monkeypatch.setattr(engines, "SLOW_SECONDS", -1.0)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr("repalign.comparison.pair.report_of", stop)
        with pytest.raises(KeyboardInterrupt):
            compared(Engine(Cache(tmp_path, 2**30)))
    n_kept = len(list(tmp_path.glob("shuffles-*")))
    assert n_kept > 10
    again = Engine(Cache(tmp_path, 2**30))
    assert compared(again) == expected
    assert again.n_cached > n_kept
    assert len(list(tmp_path.glob("shuffles-*"))) == n_kept
