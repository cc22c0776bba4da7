"""Directories of ``Dataset.save_to_disk``, in the form that the library writes them."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repalign.exceptions import InputError
from repalign.store.open import open_embeddings

pa = pytest.importorskip("pyarrow")
ROWS = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


def save(folder: Path, *parts: slice, **state: object) -> Path:
    """Save rows as the library does: streams of Arrow, and a state that names them in order."""
    folder.mkdir()
    names = [f"data-{k:05d}-of-{len(parts):05d}.arrow" for k in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        lists = pa.array(ROWS[part].tolist(), type=pa.list_(pa.float32()))
        ids = [f"row-{k}" for k in range(50)[part]]
        table = pa.table({"id": ids, "emb": lists})
        with (
            pa.OSFile(str(folder / name), "wb") as file,
            pa.ipc.new_stream(file, table.schema) as w,
        ):
            w.write_table(table, max_chunksize=7)
    told = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "0", **state}
    (folder / "state.json").write_text(json.dumps(told))
    return folder


def test_rows_and_ids_come_back_in_order(tmp_path: Path) -> None:
    source = open_embeddings(save(tmp_path / "saved", slice(0, 20), slice(20, 50)))
    assert np.array_equal(source.rows.read(0, 50), ROWS)
    assert source.index.ids is not None
    assert source.index.ids[[0, 20, 49]].tolist() == [b"row-0", b"row-20", b"row-49"]
    assert source.info["layout"] == "Arrow"


def test_what_cannot_be_read_says_the_way_out(tmp_path: Path) -> None:
    chosen = save(tmp_path / "a", slice(0, 50), _indices_data_files=[{"filename": "i.arrow"}])
    with pytest.raises(InputError, match=r"flatten_indices\(\)"):
        open_embeddings(chosen)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(InputError, match=r"train, test; .*b/train"):
        open_embeddings(tmp_path / "b")
    outside = save(tmp_path / "c", slice(0, 50))
    (outside / "state.json").write_text('{"_data_files": [{"filename": "../x.arrow"}]}')
    with pytest.raises(InputError, match="Arrow"):
        open_embeddings(outside)
    damaged = save(tmp_path / "d", slice(0, 50))
    next(damaged.glob("*.arrow")).write_bytes(b"scrap")
    with pytest.raises(InputError, match="readable Arrow"):
        open_embeddings(damaged)


@pytest.mark.parametrize(
    "told",
    ["[]", '{"_data_files": 3}', '{"_data_files": ["x"]}', '{"_data_files": [{}]}', "[" * 9999],
)
def test_states_of_another_form_are_refused(tmp_path: Path, told: str) -> None:
    folder = save(tmp_path / "saved", slice(0, 50))
    (folder / "state.json").write_text(told)
    with pytest.raises(InputError, match="saved"):
        open_embeddings(folder)


def test_texts_that_lie_beyond_the_file_are_refused(tmp_path: Path) -> None:
    """Arrow itself follows the offsets of a damaged file, wherever they lead."""
    folder = save(tmp_path / "saved", slice(0, 50))
    (path,) = folder.glob("*.arrow")
    old = np.array([0, 5, 10, 15], np.int32).tobytes()
    new = np.array([0, 5, 10**9, 15], np.int32).tobytes()
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(InputError, match="readable Arrow"):
        open_embeddings(folder)


def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", slice(0, 50))
    (path,) = folder.glob("*.arrow")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="is a pipe"):
        open_embeddings(folder)


def compressed(folder: Path, table: Any, codec: str | None) -> Path:
    """Save a table as one compressed batch, which the library itself never does."""
    folder.mkdir()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    file = folder / "data-00000-of-00001.arrow"
    with (
        pa.OSFile(str(file), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema, options=options) as stream,
    ):
        stream.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": file.name}]}))
    return folder


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_rows_are_read(tmp_path: Path, codec: str) -> None:
    lists = pa.array(ROWS.tolist(), type=pa.list_(pa.float32()))
    ids = pa.array([f"row-{k}" for k in range(50)])
    source = open_embeddings(compressed(tmp_path / "x", pa.table({"id": ids, "emb": lists}), codec))
    assert np.array_equal(source.rows.read(0, 50), ROWS)


def test_the_limit_follows_from_the_size_of_the_files(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("repalign.expansion.ALLOWANCE", 1)
    rows = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(2**18, np.float32)), 64)
    source = open_embeddings(compressed(tmp_path / "x", pa.table({"emb": rows}), None))
    assert source.n_rows == 2**12

    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2**18, np.float32)), 64)
    with pytest.raises(InputError, match="expand to 1048576 bytes"):
        open_embeddings(compressed(tmp_path / "y", pa.table({"emb": zeros}), "zstd"))


def test_a_head_of_another_form_is_refused(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", slice(0, 50))
    (path,) = folder.glob("*.arrow")
    whole = path.read_bytes()
    for place in range(8, 400, 4):
        path.write_bytes(whole[:place] + b"\xff\xff\xff\x7f" + whole[place + 4 :])
        with contextlib.suppress(InputError):
            open_embeddings(folder)
