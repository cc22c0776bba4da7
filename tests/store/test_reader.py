"""Reading: slices, views, incomplete stores, pickles, forks, threads, and what is refused."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from repalign.aliases import Rows
from repalign.exceptions import InputError, StoreError
from repalign.store import Store, StoreWriter, open_store, write_store
from repalign.store.index import RowIndex
from tests.shards import SmallShards


@pytest.fixture(params=["packed", "sharded"])
def store(request: pytest.FixtureRequest):
    with open_store(request.getfixturevalue(request.param)) as opened:
        yield opened


def test_a_store_says_what_it_is(store: Store, example) -> None:
    info = store.info

    assert info.n_rows == len(store) == 3000
    assert [(view.name, view.dim) for view in info.views] == [("layer.0", 5), ("layer.1", 300)]
    assert info.index_columns == ("sample", "token", "sample_sha", "ids")
    assert info.spec == {"model": {"id": "tiny", "layer": "final"}, "seed": 7}
    assert info.environment["numpy"] == np.__version__
    assert info.is_complete
    assert info.layout == ("directory" if store.path.is_dir() else "file")
    assert info.n_bytes >= 3000 * 305 * 4


def test_a_view_reads_like_an_array_and_is_rows(store: Store, example) -> None:
    view, values = store.view("layer.1"), example.views["layer.1"]

    assert isinstance(view, Rows)
    assert view.shape == (3000, 300)
    assert len(view) == 3000
    assert view.dtype == np.float32
    assert np.array_equal(view.read(1000, 2100), values[1000:2100])
    assert view.read(5, 5).shape == (0, 300)
    rows = np.array([0, 1, 1023, 1024, 2999])
    assert np.array_equal(view.take(rows), values[rows])
    assert view.take(np.array([], dtype=int)).shape == (0, 300)


def test_small_reads_one_after_the_other_give_the_same_rows(store: Store, example) -> None:
    view = store.view("layer.1")

    found = np.concatenate([view.read(row, row + 7) for row in range(0, 700, 7)])

    assert np.array_equal(found, example.views["layer.1"][:700])


def test_the_only_view_needs_no_name(tmp_path: Path) -> None:
    write_store(tmp_path / "a.h5", np.eye(3))

    with open_store(tmp_path / "a.h5") as store:
        assert store.view().info.name == "embedding"


def test_views_and_rows_that_are_not_there_are_refused(store: Store) -> None:
    view = store.view("layer.0")

    with pytest.raises(InputError, match=r"'other'.* layer.0, layer.1"):
        store.view("other")
    with pytest.raises(InputError, match=r"views layer.0, layer.1; "):
        store.view()
    with pytest.raises(InputError, match="3000 rows"):
        view.read(2999, 3001)
    with pytest.raises(InputError, match="rows -1 to 3"):
        store.read_index(-1, 3)
    for rows in ([1, 1], [2, 1], [[1]], [0.5]):
        with pytest.raises(InputError, match="strictly increasing integers"):
            view.take(np.array(rows))
    with pytest.raises(InputError, match="rows 3000 to 3001"):
        view.take(np.array([3000]))


def test_a_closed_store_is_not_read(store: Store) -> None:
    store.close()

    with pytest.raises(StoreError, match="closed"):
        store.view("layer.0").read(0, 1)


def test_a_store_can_be_pickled(store: Store, example) -> None:
    copy = pickle.loads(pickle.dumps(store))

    assert np.array_equal(copy.view("layer.0").read(0, 3000), example.views["layer.0"])
    assert copy.fingerprint == store.fingerprint
    copy.close()


def test_threads_read_the_same_store(store: Store, example) -> None:
    view, values = store.view("layer.1"), example.views["layer.1"]
    starts = np.random.default_rng(0).integers(0, 2900, 200).tolist()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda start: view.read(start, start + 90), starts))

    for start, rows in zip(starts, found, strict=True):
        assert np.array_equal(rows, values[start : start + 90])


def test_a_forked_process_opens_the_files_anew(packed: Path) -> None:
    script = f"""
import os
from repalign.store import open_store
store = open_store({str(packed)!r})
expected = store.view("layer.0").read(0, 10).tobytes()
if os.fork():
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
    assert store.view("layer.0").read(0, 10).tobytes() == expected
else:
    found = store.view("layer.0").read(0, 10).tobytes()
    # the handles of the parent are neither used nor closed
    os._exit(0 if found == expected and len(store._inherited) == 1 else 1)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_more_shards_than_are_kept_open(tmp_path: Path) -> None:
    values = np.arange(4000, dtype=np.float32).reshape(400, 10)
    write_store(tmp_path / "run", values, options=SmallShards(shard_rows=10))

    with open_store(tmp_path / "run") as store:
        assert store.info.n_shards == 40
        assert np.array_equal(store.view().read(0, 400), values)
        assert np.array_equal(store.view().take(np.arange(0, 400, 3)), values[::3])


def test_an_unfinished_store_is_read_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "run"
    writer = StoreWriter(path, spec={}, views={"x": 2}, options=SmallShards(shard_rows=4))
    with pytest.raises(StoreError, match="no rows"):
        open_store(path)
    writer.append({"x": np.arange(20, dtype=np.float32).reshape(10, 2)})
    writer.close()

    with pytest.raises(StoreError, match="not finished, 2 "):
        open_store(path)
    with open_store(path, allow_incomplete=True) as store:
        assert store.view().read(0, len(store)).ravel().tolist() == list(range(16))
        assert not store.info.is_complete


def test_shards_behind_a_gap_are_not_read(tmp_path: Path) -> None:
    options = SmallShards(n_shards=3)
    with StoreWriter(tmp_path / "run", spec={}, views={"x": 1}, options=options) as writer:
        for number in (0, 2):
            index = RowIndex(np.array([number]), np.array([-1]))
            writer.write_shard(number, {"x": np.full((1, 1), float(number))}, index)

    with open_store(tmp_path / "run", allow_incomplete=True) as store:
        assert len(store) == 1
    with pytest.raises(StoreError, match="not finished, 1 of 3 "):
        open_store(tmp_path / "run")


def test_a_shard_alone_does_not_pass_for_the_store(sharded: Path) -> None:
    with pytest.raises(StoreError, match=r"part-00001.h5: .*shard 1 "):
        open_store(sharded / "part-00001.h5")


def test_a_store_that_is_replaced_while_it_is_open_gives_its_rows(tmp_path: Path) -> None:
    write_store(tmp_path / "a.h5", np.eye(3))
    with open_store(tmp_path / "a.h5") as store:
        write_store(tmp_path / "a.h5", np.ones((3, 3)), overwrite=True)

        np.testing.assert_array_equal(store.view().read(0, 3), np.eye(3))


def test_a_packed_store_is_opened_and_checked_once(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    open_file = h5py.File

    def count(path: Path, *arguments: Any, **keywords: Any) -> h5py.File:
        paths.append(path)
        return open_file(path, *arguments, **keywords)

    monkeypatch.setattr(h5py, "File", count)
    with open_store(packed) as store:
        store.view("layer.0").read(0, len(store.index))

    assert paths == [packed]
