"""Writing: resuming, several writers, overwriting, and the message of every refusal."""

import os
from pathlib import Path

import numpy as np
import pytest

from repalign.exceptions import InputError, StoreError
from repalign.store import (
    StoreWriter,
    open_store,
    pack_store,
    verify_store,
    write_store,
)
from repalign.store.index import RowIndex, pooled_index
from tests.shards import SmallShards

SMALL = SmallShards(shard_rows=4)


def numbers(start: int, stop: int) -> np.ndarray:
    return np.arange(2 * start, 2 * stop, dtype=np.float32).reshape(-1, 2)


def interrupted(path: Path, *, rows: int = 10, spec: dict | None = None) -> None:
    """Write some rows and stop without finishing, as an exception would."""
    writer = StoreWriter(path, spec=spec or {"seed": 1}, views={"x": 2}, options=SMALL)
    writer.append({"x": numbers(0, rows)})
    writer.close()


def test_rows_get_pooled_identities_in_row_order_by_default(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "a.h5", spec={}, views={"x": 2}, options=SMALL) as writer:
        writer.append({"x": numbers(0, 3)})
        writer.append({"x": numbers(3, 9)})

    with open_store(tmp_path / "a.h5") as store:
        np.testing.assert_equal(store.index.slice(0, 9).columns, pooled_index(9).columns)


def test_the_caller_may_reuse_its_arrays(tmp_path: Path) -> None:
    block = numbers(0, 3)
    with StoreWriter(tmp_path / "a.h5", spec={}, views={"x": 2}) as writer:
        for _ in range(2):
            writer.append({"x": block})
            block += 100

    with open_store(tmp_path / "a.h5") as store:
        assert store.view().read(0, 6)[:, 0].tolist() == [0, 2, 4, 100, 102, 104]


@pytest.mark.parametrize("name", ["run.h5", "run"])
def test_an_interrupted_store_continues_after_its_whole_shards(tmp_path: Path, name: str) -> None:
    interrupted(tmp_path / name)

    with StoreWriter(
        tmp_path / name, resume=True, spec={"seed": 1}, views={"x": 2}, options=SMALL
    ) as writer:
        assert writer.committed == (0, 1)
        assert writer.n_rows == 8
        writer.append({"x": numbers(8, 10)})

    write_store(tmp_path / "whole.h5", {"x": numbers(0, 10)}, spec={"seed": 1})
    with open_store(tmp_path / name) as store, open_store(tmp_path / "whole.h5") as whole:
        assert store.fingerprint == whole.fingerprint
    assert not (tmp_path / "run.h5.parts").exists()


@pytest.mark.parametrize("name", ["run.h5", "run"])
def test_a_finished_store_is_found_finished(tmp_path: Path, name: str) -> None:
    write_store(tmp_path / name, {"x": numbers(0, 5)}, spec={"seed": 1})

    writer = StoreWriter(tmp_path / name, resume=True, spec={"seed": 1}, views={"x": 2})

    assert writer.is_complete
    assert writer.n_rows == 5
    assert writer.finish().n_rows == 5
    with pytest.raises(StoreError, match="is complete"):
        writer.append({"x": numbers(5, 6)})
    with pytest.raises(StoreError, match="is complete"):
        writer.write_shard(1, {"x": numbers(5, 6)}, pooled_index(1))


def test_shards_left_beside_their_packed_file_are_removed(tmp_path: Path) -> None:
    interrupted(tmp_path / "run.h5", rows=8)
    parts = tmp_path / "run.h5.parts"
    (parts / "store.json").rename(tmp_path / "kept.json")
    write_store(tmp_path / "other.h5", {"x": numbers(0, 8)}, spec={"seed": 1})
    (tmp_path / "kept.json").rename(parts / "store.json")
    (tmp_path / "other.h5").rename(tmp_path / "run.h5")  # killed between rename and removal

    writer = StoreWriter(tmp_path / "run.h5", resume=True, spec={"seed": 1}, views={"x": 2})

    assert writer.is_complete
    assert not parts.exists()


def test_an_interrupted_overwrite_continues_and_the_old_file_lives_until_then(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.h5"
    write_store(path, {"x": numbers(50, 60)}, spec={"seed": 0})
    writer = StoreWriter(path, spec={"seed": 1}, views={"x": 2}, options=SMALL, overwrite=True)
    writer.append({"x": numbers(0, 6)})
    writer.close()
    with open_store(path) as store:
        assert store.spec == {"seed": 0}

    with StoreWriter(path, resume=True, spec={"seed": 1}, views={"x": 2}, options=SMALL) as writer:
        assert writer.n_rows == 4
        writer.append({"x": numbers(4, 6)})

    with open_store(path) as store:
        assert np.array_equal(store.view().read(0, 6), numbers(0, 6))


def test_a_changed_spec_is_refused_by_the_names_of_the_keys(tmp_path: Path) -> None:
    old = {"model": {"id": "m", "layer": "final"}, "seed": 1, "tokens": [1, 2]}
    interrupted(tmp_path / "run.h5", spec=old)
    new = {"model": {"id": "m", "layer": "-2", "pool": "mean"}, "tokens": (1, 2)}

    with pytest.raises(StoreError) as caught:
        StoreWriter(tmp_path / "run.h5", resume=True, spec=new, views={"x": 3}, options=SMALL)

    assert "\n" not in str(caught.value)
    for part in (
        'model.layer: "final" → "-2"',
        'model.pool: (absent) → "mean"',
        "spec.seed: 1 → (absent)",
        "views.x.dim: 2 → 3",
    ):
        assert part in str(caught.value)
    assert "tokens" not in str(caught.value)


def test_many_changed_keys_are_counted(tmp_path: Path) -> None:
    interrupted(tmp_path / "run.h5", spec={str(i): 0 for i in range(9)})

    with pytest.raises(StoreError, match=" 4 more"):
        StoreWriter(
            tmp_path / "run.h5",
            resume=True,
            spec={str(i): "x" * 99 for i in range(9)},
            views={"x": 2},
        )


def test_damaged_shards_are_not_continued(tmp_path: Path) -> None:
    interrupted(tmp_path / "run")
    shard = tmp_path / "run" / "part-00001.h5"
    shard.write_bytes(shard.read_bytes()[:-100])

    with pytest.raises(StoreError, match=r"part-00001\.h5"):
        StoreWriter(tmp_path / "run", resume=True, spec={"seed": 1}, views={"x": 2}, options=SMALL)


def test_several_writers_share_a_store(tmp_path: Path) -> None:
    options = SmallShards(n_shards=5)
    for rank in range(2):
        with StoreWriter(
            tmp_path / "run.h5", resume=True, spec={}, views={"x": 2}, options=options
        ) as writer:
            for number in range(rank, 5, 2):
                rows = slice(number * 3, number * 3 + 3)
                index = pooled_index(15).slice(rows.start, rows.stop)
                writer.write_shard(number, {"x": numbers(rows.start, rows.stop)}, index)
    assert not (tmp_path / "run.h5").exists()

    writer = StoreWriter(tmp_path / "run.h5", resume=True, spec={}, views={"x": 2}, options=options)
    assert writer.committed == (0, 1, 2, 3, 4)
    info = writer.finish()

    assert info.layout == "file"
    with open_store(tmp_path / "run.h5") as store:
        assert np.array_equal(store.view().read(0, 15), numbers(0, 15))
        np.testing.assert_equal(store.index.slice(0, 15).columns, pooled_index(15).columns)


def test_a_planned_directory_is_complete_without_a_manifest(tmp_path: Path) -> None:
    options = SmallShards(n_shards=1)
    with StoreWriter(tmp_path / "run", spec={}, views={"x": 2}, options=options) as writer:
        writer.write_shard(0, {"x": numbers(0, 3)}, pooled_index(3))

    assert not (tmp_path / "run" / "manifest.json").exists()
    with open_store(tmp_path / "run") as store:
        assert store.info.is_complete
        fingerprint = store.fingerprint
    packed = pack_store(tmp_path / "run")
    assert packed == tmp_path / "run.h5"
    with open_store(packed) as store:
        assert store.fingerprint == fingerprint


def test_shards_are_written_once_and_within_the_plan(tmp_path: Path) -> None:
    options = SmallShards(n_shards=2)
    with StoreWriter(tmp_path / "run", spec={}, views={"x": 2}, options=options) as writer:
        writer.write_shard(1, {"x": numbers(0, 3)}, pooled_index(3))
        writer.flush()
        with pytest.raises(StoreError, match=r"shard 1 .*already"):
            writer.write_shard(1, {"x": numbers(0, 3)}, pooled_index(3))
        for number in (-1, 2):
            with pytest.raises(InputError, match=f"shard {number}: .*0 to 1"):
                writer.write_shard(number, {"x": numbers(0, 3)}, pooled_index(3))
        with pytest.raises(InputError, match=r"shard 0 .*no rows"):
            writer.write_shard(0, {"x": numbers(0, 0)}, pooled_index(0))
        with pytest.raises(StoreError, match="gap"):
            writer.append({"x": numbers(0, 1)})
    without_plan = {"resume": True, "spec": {}, "views": {"x": 2}}
    assert StoreWriter(tmp_path / "run", options=options, **without_plan).finish() is None
    with pytest.raises(StoreError, match="part-00000"):
        StoreWriter(tmp_path / "run", **without_plan).finish()


def test_shards_beyond_the_plan_are_noticed(tmp_path: Path) -> None:
    with StoreWriter(
        tmp_path / "run", spec={}, views={"x": 2}, options=SmallShards(n_shards=1)
    ) as writer:
        writer.write_shard(0, {"x": numbers(0, 3)}, pooled_index(3))
        writer.flush()
        copy = tmp_path / "run" / "part-00001.h5"
        copy.write_bytes((tmp_path / "run" / "part-00000.h5").read_bytes())

        with pytest.raises(StoreError, match=r"part-00001.h5 .*planned"):
            writer.finish()


def test_a_negative_shard_without_a_plan_is_refused(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "run", spec={}, views={"x": 2}) as writer:
        with pytest.raises(InputError, match=r"shard -1: .*from 0$"):
            writer.write_shard(-1, {"x": numbers(0, 3)}, pooled_index(3))
        writer.append({"x": numbers(0, 1)})


def test_shards_with_other_index_columns_are_refused(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "run", spec={}, views={"x": 2})
    writer.write_shard(0, {"x": numbers(0, 1)}, pooled_index(1))
    writer.write_shard(1, {"x": numbers(0, 1)}, pooled_index(1, ids=["a"]))

    with pytest.raises(StoreError, match="sample, token, ids"):
        writer.finish()


def test_shards_with_ids_of_different_widths_make_one_store(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "run", spec={}, views={"x": 2}) as writer:
        writer.write_shard(0, {"x": numbers(0, 1)}, pooled_index(1, ids=["a"]))
        writer.write_shard(1, {"x": numbers(1, 2)}, pooled_index(1, start=1, ids=["long-id"]))

    write_store(
        tmp_path / "b.h5", {"x": numbers(0, 2)}, index=pooled_index(2, ids=["a", "long-id"])
    )
    with open_store(tmp_path / "run") as store, open_store(tmp_path / "b.h5") as other:
        assert store.index.slice(0, 2).ids.tolist() == [b"a", b"long-id"]
        assert store.fingerprint == other.fingerprint


@pytest.mark.parametrize("name", ["run.h5", "run"])
def test_nothing_is_overwritten_without_leave(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_store(path, {"x": numbers(0, 5)})

    with pytest.raises(InputError, match="overwriting"):
        write_store(path, {"x": numbers(5, 6)})
    with open_store(path) as store:
        assert len(store) == 5
    write_store(path, {"x": numbers(5, 6)}, overwrite=True)

    with open_store(path) as store:
        assert store.view().read(0, 1).tolist() == [[10, 11]]


def test_unfinished_shards_are_not_overwritten_without_leave(tmp_path: Path) -> None:
    interrupted(tmp_path / "run.h5")

    with pytest.raises(InputError, match="unfinished"):
        write_store(tmp_path / "run.h5", {"x": numbers(0, 1)})
    write_store(tmp_path / "run.h5", {"x": numbers(0, 1)}, overwrite=True)

    assert [entry.name for entry in tmp_path.iterdir()] == ["run.h5"]


def test_a_directory_with_other_files_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    write_store(tmp_path / "run", {"x": numbers(0, 5)})
    (tmp_path / "run" / "notes.txt").write_text("mine")

    with pytest.raises(StoreError, match=r"thesis: .*removed"):
        write_store(tmp_path / "thesis", {"x": numbers(0, 1)}, overwrite=True)
    with pytest.raises(StoreError, match=r"'notes.txt'"):
        write_store(tmp_path / "run", {"x": numbers(0, 1)}, overwrite=True)
    with pytest.raises(InputError, match=r"thesis: .*not a store"):
        StoreWriter(tmp_path / "thesis", resume=True, spec={}, views={"x": 2})

    assert (tmp_path / "thesis" / "chapter1.txt").read_text() == "years of work"
    assert verify_store(tmp_path / "run").is_sound


def test_a_writer_killed_before_its_description_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "run.h5.parts").mkdir()
    (tmp_path / "run.h5.parts" / ".store.json.1-2.tmp").write_text("{")

    with StoreWriter(tmp_path / "run.h5", resume=True, spec={}, views={"x": 2}) as writer:
        writer.append({"x": numbers(0, 1)})

    assert [entry.name for entry in tmp_path.iterdir()] == ["run.h5"]


@pytest.mark.parametrize("name", ["run.h5", "run"])
def test_an_exception_before_the_first_shard_leaves_nothing(tmp_path: Path, name: str) -> None:
    def write_and_stop() -> None:
        with StoreWriter(tmp_path / name, spec={}, views={"x": 2}, options=SMALL) as writer:
            writer.append({"x": numbers(0, 2)})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_stop()

    assert list(tmp_path.iterdir()) == []


def test_an_exception_keeps_whole_shards_and_leaves_no_other_file(tmp_path: Path) -> None:
    def write_and_stop() -> None:
        with StoreWriter(tmp_path / "run.h5", spec={}, views={"x": 2}, options=SMALL) as writer:
            writer.append({"x": numbers(0, 6)})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_stop()

    names = sorted(entry.name for entry in (tmp_path / "run.h5.parts").iterdir())
    assert names == ["part-00000.h5", "store.json"]
    assert not (tmp_path / "run.h5").exists()


def test_write_store_leaves_nothing_when_it_is_interrupted(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_store(tmp_path / "run.h5", {"x": numbers(0, 6)}, on_progress=stop)

    assert list(tmp_path.iterdir()) == []


def test_progress_of_writing_and_packing_ends_at_the_total(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    write_store(tmp_path / "run", numbers(0, 9000), on_progress=lambda *now: seen.append(now))
    assert seen == [(8192, 9000), (9000, 9000)]

    seen.clear()
    pack_store(tmp_path / "run", on_progress=lambda *now: seen.append(now))
    assert seen[-1][0] == seen[-1][1] == len(seen)


def test_rows_of_another_store_are_copied_in_blocks(tmp_path: Path, packed: Path, example) -> None:
    with open_store(packed) as store:
        write_store(
            tmp_path / "copy.h5",
            {name: store.view(name) for name in store.views},
            index=store.index,
        )
        with open_store(tmp_path / "copy.h5") as copy:
            assert copy.fingerprint == store.fingerprint


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ({"y": numbers(0, 2)}, "given: y; .* x"),
        ({}, "given: none; .* x"),
        ({"x": numbers(0, 2)[:, :1]}, r"float32 .*\(2, 1\); .*\(2, 2\)"),
        ({"x": np.zeros((2, 2), int)}, "int64"),
        ({"x": np.float32(1)}, r"shape \(\); expected floating"),
        ({"x": np.array([[0, 1], [np.nan, 1]])}, "view x: row 1 .*nan"),
        ({"x": np.array([[0, -np.inf]])}, "row 0 .*-inf"),
    ],
)
def test_rows_that_are_no_embeddings_are_refused(tmp_path: Path, views, message: str) -> None:
    with StoreWriter(tmp_path / "a.h5", spec={}, views={"x": 2}) as writer:
        with pytest.raises(InputError, match=message):
            writer.append(views)
        writer.append({"x": numbers(0, 1)})


def test_values_that_half_precision_cannot_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"70000 .*row 1 .*float16"):
        write_store(
            tmp_path / "a.h5", np.array([[1.0], [70000.0]]), options=SmallShards(dtype="float16")
        )


@pytest.mark.parametrize(
    ("views", "options", "message"),
    [
        ({"a/b": 2}, {}, "view name 'a/b'"),
        ({"..": 2}, {}, "view name '..'"),
        ({"x" * 65: 2}, {}, "view name"),
        ({"x": 0}, {}, "view x: .*dim .*0;"),
        ({"x": 2**17 + 1}, {}, "view x: dim is 131073"),
        ({}, {}, "1 to 1024 views .*got 0"),
        (
            {"x": 2},
            {"dtype": "int8"},
            "dtype: got 'int8'",
        ),
    ],
)
def test_views_that_no_store_has_are_refused(tmp_path, views, options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        StoreWriter(tmp_path / "a.h5", spec={}, views=views, options=SmallShards(**options))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["n_shards", "n_writers", "expected_rows"])
def test_options_below_one_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: got 0"):
        SmallShards(**{name: 0})


def test_a_misspelt_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="mode: got 'ful'"):
        verify_store(tmp_path, mode="ful")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes"])
def test_a_spec_that_is_no_json_is_refused_before_anything_is_written(tmp_path, value) -> None:
    with pytest.raises(InputError, match="JSON"):
        StoreWriter(tmp_path / "a.h5", spec={"a": value}, views={"x": 2})
    assert list(tmp_path.iterdir()) == []


def test_a_spec_that_no_reader_would_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1048576"):
        StoreWriter(tmp_path / "a.h5", spec={"files": "x" * 2**20}, views={"x": 2})
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_rows_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="no rows"),
        StoreWriter(tmp_path / "a.h5", spec={}, views={"x": 2}),
    ):
        pass


def test_a_disk_that_is_too_small_is_noticed_before_writing(tmp_path: Path) -> None:
    options = SmallShards(expected_rows=10**13)

    with pytest.raises(StoreError, match=r"168000\.00 GB"):
        StoreWriter(tmp_path / "a.h5", spec={}, views={"x": 2}, options=options)
    assert not (tmp_path / "a.h5.parts").exists()


def test_a_disk_that_fails_is_named(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "run", spec={}, views={"x": 2}, options=SMALL)
    (tmp_path / "run" / "store.json").unlink()
    (tmp_path / "run").rmdir()

    with pytest.raises(StoreError, match=r"run: .*gone"):
        writer.append({"x": numbers(0, 4)})
    writer.close()


@pytest.mark.parametrize(
    ("views", "index", "message"),
    [
        ({}, None, "no views given"),
        (np.zeros(3), None, r"embedding: .*float64 .*\(3,\)"),
        (np.zeros((3, 2), int), None, "embedding: .*int64"),
        (np.zeros((3, 2)), pooled_index(2), "embedding .*3 rows, .*2"),
    ],
)
def test_arrays_that_are_no_embeddings_are_refused(tmp_path, views, index, message) -> None:
    with pytest.raises(InputError, match=message):
        write_store(tmp_path / "a.h5", views, index=index)


def test_targets_that_cannot_be_packed_into_are_refused(tmp_path: Path, sharded: Path) -> None:
    (tmp_path / "taken.h5").write_text("")
    (tmp_path / "folder.h5").mkdir()

    with pytest.raises(InputError, match=r"named \*\.h5"):
        pack_store(sharded, tmp_path / "run.hdf")
    with pytest.raises(InputError, match="exists"):
        pack_store(sharded, tmp_path / "taken.h5")
    with pytest.raises(InputError, match="is a directory"):
        pack_store(sharded, tmp_path / "folder.h5")
    with pytest.raises(StoreError, match="directory of shards"):
        pack_store(tmp_path / "taken.h5", tmp_path / "b.h5")
    pack_store(sharded, tmp_path / "taken.h5", overwrite=True)

    assert verify_store(tmp_path / "taken.h5").is_sound


def test_packing_damaged_shards_gives_no_file(sharded: Path, example, tmp_path: Path) -> None:
    shard = sharded / "part-00001.h5"
    content = bytearray(shard.read_bytes())
    content[content.find(example.views["layer.1"][1500].tobytes())] ^= 4
    shard.write_bytes(content)

    with pytest.raises(StoreError, match=r"part-00001.h5: emb/layer.1: .* 1024 to 1535"):
        pack_store(sharded, tmp_path / "a.h5")

    assert sorted(e.name for e in tmp_path.iterdir()) == ["run.rst"]


def test_index_rows_are_a_row_index(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "a.h5", spec={}, views={"x": 2}) as writer:
        with pytest.raises(InputError, match=r"shape \(3, 2\); expected .* \(2, 2\)"):
            writer.append({"x": numbers(0, 3)}, RowIndex(np.arange(2), np.zeros(2, int)))
        writer.append({"x": numbers(0, 1)})


def test_packing_follows_a_link_and_keeps_the_permissions(tmp_path: Path, sharded: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "old.h5").write_text("old")
    (tmp_path / "disk" / "old.h5").chmod(0o640)
    (tmp_path / "link.h5").symlink_to("disk/old.h5")

    pack_store(sharded, tmp_path / "link.h5", overwrite=True)

    assert (tmp_path / "link.h5").is_symlink()
    assert (tmp_path / "disk" / "old.h5").stat().st_mode & 0o777 == 0o640
    with open_store(tmp_path / "disk" / "old.h5") as store:
        assert len(store) > 0
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["old.h5"]


def test_a_store_is_no_pipe(tmp_path: Path, sharded: Path) -> None:
    os.mkfifo(tmp_path / "pipe.h5")
    with pytest.raises(InputError, match="pipe"):
        pack_store(sharded, tmp_path / "pipe.h5", overwrite=True)


def test_no_store_goes_to_standard_output(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"-: .*standard output"):
        write_store("-", np.eye(3))
    assert not list(tmp_path.iterdir())
