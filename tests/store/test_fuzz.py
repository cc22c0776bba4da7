"""Thousands of damaged stores: the original values come back, or a StoreError does."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from repalign.store.index import RowIndex
from repalign.store.writer import write_store
from tests.shards import SmallShards

WORKER = Path(__file__).with_name("fuzz_worker.py")
LICENCE = "for research only"


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small stores of every kind; the damage goes into the file that is named."""
    folder = tmp_path_factory.mktemp("fuzz")
    rng = np.random.default_rng(0)

    def write(name: str, n_rows: int, **options) -> Path:
        views = {
            "narrow": rng.standard_normal((n_rows, 2), dtype=np.float32),
            "wide": rng.standard_normal((n_rows, 3), dtype=np.float32),
        }
        index = RowIndex(
            sample=np.arange(n_rows),
            token=np.full(n_rows, -1),
            sample_sha=rng.integers(0, 256, (n_rows, 16), dtype=np.uint8),
            ids=np.array([f"id{i}" for i in range(n_rows)]),
        )
        settings = SmallShards(licence=LICENCE, **options)
        write_store(folder / name, views, index=index, spec={"seed": 1}, options=settings)
        return folder / name

    directory = write("run", 200, shard_rows=64)
    return {
        "tiny": write("tiny.h5", 3),  # nearly all metadata
        "chunks": write("chunks.h5", 9000),
        "shard": directory / "part-00001.h5",
        "manifest": directory / "manifest.json",
    }


@pytest.mark.faults
@pytest.mark.parametrize("damage", ["flip", "cut", "splice"])
@pytest.mark.parametrize("name", ["tiny", "chunks", "shard", "manifest"])
def test_damage_is_noticed_or_harmless(targets: dict[str, Path], name: str, damage: str) -> None:
    copies = {"tiny": 600, "chunks": 200}.get(name, 200)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    done = subprocess.run(
        [sys.executable, str(WORKER), str(targets[name]), damage, "0", str(copies)],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    # most damage hits something: a reader that never refuses would not be tested
    assert int(done.stdout) > copies / 4


def test_the_worker_tells_wrong_values(targets: dict[str, Path]) -> None:
    script = f"""
import runpy, sys
from repalign.store import reader
class AnyDigest(bytes):
    __ne__ = lambda self, other: False
reader.leaf_digest = lambda values: AnyDigest()
sys.argv = [{str(WORKER)!r}, {str(targets["chunks"])!r}, "flip", "0", "40"]
runpy.run_path({str(WORKER)!r}, run_name="__main__")
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )

    assert "other values came back" in done.stderr
