"""A run of two processes that is killed half way continues to the same result."""

from pathlib import Path

import numpy as np
import pytest

from repalign.store import write_store
from tests.killed import kill_after, results_in, start

N_PAIRS = 16
OPTIONS = ["--layers", "all", "--maps", "permutation,rigid,linear", "--null", "99"]


@pytest.fixture
def stores(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(0)
    shared = rng.laplace(size=(400, 16))
    for name in "ab":
        views = {f"block-{i}": shared @ rng.standard_normal((16, 16)) for i in range(4)}
        write_store(tmp_path / f"{name}.h5", views)
    return [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]


@pytest.mark.slow
def test_it_continues_and_does_nothing_twice(stores: list[str], tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    words = ["compare", *stores, *OPTIONS]
    expected, _ = start(words, whole).communicate()
    assert len(expected.splitlines()) == 1 + N_PAIRS * 6
    kill_after(start(words, killed), killed, N_PAIRS // 4, "pair-")
    before = results_in(killed, "pair-")
    assert 0 < len(before) < N_PAIRS
    again, talk = start(words, killed).communicate()
    assert again == expected
    after = results_in(killed, "pair-")
    assert len(after) == N_PAIRS
    assert {name: after[name] for name in before} == before
    assert f" {N_PAIRS - len(before)} computed" in talk
