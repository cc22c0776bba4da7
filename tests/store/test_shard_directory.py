"""Who may write a store at one time, and who completes one that several write."""

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from repalign.exceptions import InputError, StoreError
from repalign.store import shard_files
from repalign.store.index import pooled_index
from repalign.store.reader import open_store
from repalign.store.writer import StoreWriter
from tests.shards import SmallShards

ROWS = np.arange(24, dtype=np.float32).reshape(12, 2)


def writer_of(path: Path, **options) -> StoreWriter:
    return StoreWriter(path, resume=True, spec={}, views={"x": 2}, options=SmallShards(**options))


def write(writer: StoreWriter, number: int) -> None:
    rows = slice(number * 3, number * 3 + 3)
    writer.write_shard(number, {"x": ROWS[rows]}, pooled_index(12).slice(rows.start, rows.stop))


@pytest.mark.parametrize("name", ["run.h5", "run"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_second_writer_is_refused_and_harms_nothing(
    tmp_path: Path, name: str, overwrite: bool
) -> None:
    with writer_of(tmp_path / name) as first:
        first.append({"x": ROWS})
        with pytest.raises(StoreError, match="another process"):
            StoreWriter(
                tmp_path / name,
                spec={},
                views={"x": 2},
                overwrite=overwrite,
                resume=not overwrite,
            )

    with open_store(tmp_path / name) as store:
        np.testing.assert_array_equal(store.view().read(0, 12), ROWS)


def test_a_writer_that_failed_leaves_the_store_to_others(tmp_path: Path) -> None:
    first = writer_of(tmp_path / "run", shard_rows=3)
    first.append({"x": ROWS[:3]})
    with pytest.raises(InputError, match="holds nan"), first:
        first.append({"x": np.full((3, 2), np.nan)})

    with writer_of(tmp_path / "run", shard_rows=3) as second:
        assert second.n_rows == 3
        second.append({"x": ROWS[3:]})

    with open_store(tmp_path / "run") as store:
        np.testing.assert_array_equal(store.view().read(0, 12), ROWS)


def test_a_file_in_the_place_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("notes")

    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"run: .*not a store"):
            StoreWriter(
                tmp_path / "run",
                spec={},
                views={"x": 2},
                overwrite=overwrite,
                resume=not overwrite,
            )
    assert (tmp_path / "run").read_text() == "notes"


@pytest.mark.parametrize("name", ["run.h5", "run"])
def test_the_last_of_several_writers_completes_the_store(tmp_path: Path, name: str) -> None:
    writers = [writer_of(tmp_path / name, n_shards=4, n_writers=2) for _ in range(2)]
    for number in range(4):
        write(writers[number % 2], number)

    first = writers[0].finish()
    last = writers[1].finish()

    assert last is not None
    assert last.n_rows == 12
    # the shards of the second were on their way when the first asked
    assert first is None or first.n_rows == 12
    assert writers[0].finish() is not None
    with open_store(tmp_path / name) as store:
        np.testing.assert_array_equal(store.view().read(0, 12), ROWS)


def test_a_store_that_lacks_shards_is_not_completed(tmp_path: Path) -> None:
    writer = writer_of(tmp_path / "run.h5", n_shards=4)
    write(writer, 0)

    assert writer.finish() is None
    assert not writer.is_complete
    assert (writer.directory / "part-00000.h5").is_file()


def test_a_writer_joins_a_store_that_another_begins_at_that_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, others, look = tmp_path / "run.h5", [], shard_files.is_unused

    def look_late(directory: Path) -> bool:
        if not others:
            others.append(None)
            others.append(writer_of(path, n_shards=4, n_writers=2))
        return look(directory)

    (tmp_path / "run.h5.parts").mkdir()
    monkeypatch.setattr(shard_files, "is_unused", look_late)
    writer = writer_of(path, n_shards=4, n_writers=2)
    for number in range(4):
        write(writer if number % 2 else others[1], number)
    others[1].flush()  # its shards are committed in the background

    assert writer.finish() is not None


def _share(path: Path, rank: int) -> None:
    with writer_of(path, n_shards=4, n_writers=2) as writer:
        for number in range(rank, 4, 2):
            write(writer, number)
        writer.finish()


def test_processes_that_finish_together_complete_it_once(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=_share, args=(path, rank)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()

    assert [rank.exitcode for rank in ranks] == [0, 0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.h5"]
    with open_store(path) as store:
        np.testing.assert_array_equal(store.view().read(0, 12), ROWS)
