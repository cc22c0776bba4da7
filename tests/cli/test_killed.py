"""Commands that were killed: the same command again finishes, and removes what was left."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import repalign
from repalign.cli.app import app
from repalign.results.saved_maps import save_result_maps
from repalign.store import StoreWriter, open_store, shard_files
from tests.shards import SmallShards

X = np.random.default_rng(0).laplace(size=(50, 3))
# The process ends before an output gets its name.
KILLED = """
import os, pathlib
from repalign.__main__ import main

def replace(path, to):
    os._exit(9) if to.suffix in (".h5", ".npz") else path.rename(to)

pathlib.Path.replace = replace
main()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    repalign.write_store("shards", X)
    save_result_maps(repalign.compare(X, 2 * X, quick=True, maps="rigid"), "maps")
    return tmp_path


def run(*line: str) -> Result:
    return CliRunner().invoke(app, list(line))


@pytest.mark.parametrize(
    "line",
    [
        ["store", "import", "x.npy", "out.h5"],
        ["apply", "maps/01-rigid.safetensors", "x.npy", "-o", "out.h5"],
        ["store", "pack", "shards", "out.h5"],
        ["store", "export", "shards", "out.npz"],
    ],
    ids=lambda line: line[1],
)
def test_the_same_command_again_finishes(folder: Path, line: list[str]) -> None:
    before = set(folder.rglob("*"))
    ended = subprocess.run([sys.executable, "-c", KILLED, *line], check=False)
    assert ended.returncode == 9
    assert set(folder.rglob("*")) > before

    again = run(*line)

    assert again.exit_code == 0, again.output
    assert set(folder.rglob("*")) - before == {folder / line[-1]}


def test_shards_beside_a_finished_store_are_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ["store", "import", "x.npy", "out.h5"]
    with monkeypatch.context() as killed:
        killed.setattr(shard_files, "remove_directory", lambda path: None)
        assert run(*line).exit_code == 0
    assert Path("out.h5.parts").exists()

    again = run(*line)

    assert again.exit_code == 1
    assert "exists" in again.stderr
    assert not Path("out.h5.parts").exists()


def test_an_unfinished_store_of_other_rows_is_kept(folder: Path) -> None:
    options = SmallShards(shard_rows=10)
    writer = StoreWriter("out.h5", spec={"model": "mine"}, views={"x": 3}, options=options)
    writer.append({"x": X[:20]})
    writer.close()
    again = run("store", "import", "x.npy", "out.h5")
    assert again.exit_code == 1
    assert "unfinished" in again.stderr
    with open_store("out.h5.parts", allow_incomplete=True) as store:
        assert store.info.n_rows == 20


def test_two_imports_at_once_are_told_so(folder: Path) -> None:
    with StoreWriter("out.h5", spec={"model": "mine"}, views={"x": 3}) as writer:
        second = run("store", "import", "x.npy", "out.h5")
        assert second.exit_code == 1
        assert "another process" in second.stderr
        writer.append({"x": X})
