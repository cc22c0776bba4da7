"""A run of two processes that is killed half way continues to the same result."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from repalign.store import write_store

N_PAIRS = 16


@pytest.fixture
def stores(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(0)
    shared = rng.laplace(size=(400, 16))
    for name in "ab":
        views = {f"block-{i}": shared @ rng.standard_normal((16, 16)) for i in range(4)}
        write_store(tmp_path / f"{name}.h5", views)
    return [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]


def started(stores: list[str], cache: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "repalign", "--verbose", "compare", *stores]
    command += ["--layers", "all", "--maps", "permutation,rigid,linear", "--null", "99"]
    return subprocess.Popen(
        [*command, "--workers", "2", "-f", "csv"],
        env=os.environ | {"REPALIGN_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def pairs_in(cache: Path) -> dict[str, int]:
    """Finished pairs by name, each with the number of its file, which a new one would change."""
    return {path.name: path.stat().st_ino for path in cache.glob("pair-*.result")}


@pytest.mark.slow
def test_it_continues_and_does_nothing_twice(stores: list[str], tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    expected, _ = started(stores, whole).communicate()
    assert len(expected.splitlines()) == 1 + N_PAIRS * 6
    run = started(stores, killed)
    while run.poll() is None and len(pairs_in(killed)) < N_PAIRS // 4:
        time.sleep(0.005)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    before = pairs_in(killed)
    assert 0 < len(before) < N_PAIRS
    again, told = started(stores, killed).communicate()
    assert again == expected
    after = pairs_in(killed)
    assert len(after) == N_PAIRS
    assert {name: after[name] for name in before} == before
    assert f" {N_PAIRS - len(before)} computed" in told
