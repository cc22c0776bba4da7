"""Small files that would become large ones, and identities that would fill the memory."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io

from repalign.conditions.columns import open_columns
from repalign.data.text_tables import ParquetColumn
from repalign.exceptions import InputError
from repalign.expansion import VARIABLE, allowing, check_copy, check_identities
from repalign.store.open import open_embeddings

ROWS, COLUMNS = 3_000, 256  # 3 MB of zeros, 3 kB packed


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow one megabyte where half a gibibyte is allowed."""
    monkeypatch.setattr("repalign.expansion.ALLOWANCE", 2**20)


@pytest.mark.usefixtures("little")
def test_an_archive_that_expands_a_thousandfold_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", emb=np.zeros((ROWS, COLUMNS), np.float32))

    with pytest.raises(InputError, match=r"a.npz::emb: .*3072128 .*1048576"):
        open_embeddings(tmp_path / "a.npz")


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("name", ["a.h5", "a.h5ad", "a.zarr"])
def test_compressed_values_read_in_place_expand_no_further(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    if path.suffix == ".zarr":
        zarr = pytest.importorskip("zarr")
        zeros = np.zeros((ROWS, COLUMNS), np.float32)
        with zarr.config.set({"array.write_empty_chunks": True}):
            zarr.create_array(str(path), data=zeros, chunks=(1000, COLUMNS))
    else:
        with h5py.File(path, "w") as file:
            zeros = np.zeros((ROWS, COLUMNS), np.float32)
            file.create_dataset("X", data=zeros, chunks=(1000, COLUMNS), compression="gzip")

    with pytest.raises(InputError, match=r"3072000 .*1048576"):
        open_embeddings(path)

    monkeypatch.setenv(VARIABLE, "1G")
    assert open_embeddings(path).n_rows == ROWS


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("name", ["a.npz", "a.h5", "a.h5ad", "a.zarr"])
def test_ids_that_repeat_themselves_count_as_texts(tmp_path: Path, name: str) -> None:
    """Two letters, packed to nothing, take fifty bytes as a text of Python."""
    path, n_rows = tmp_path / name, 100_000
    ids, rows = np.full(n_rows, b"ab"), np.zeros((n_rows, 1), np.int8)
    if path.suffix == ".npz":
        np.savez_compressed(path, emb=rows, ids=ids)
    elif path.suffix == ".zarr":
        zarr = pytest.importorskip("zarr")
        group = zarr.open_group(str(path), mode="w", zarr_format=2)
        group.create_array("ids", data=ids, chunks=ids.shape)
        group.create_array("emb", data=rows + 1, chunks=rows.shape)
    else:
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=rows, compression="gzip")
            if path.suffix == ".h5":
                file.create_dataset("ids", data=ids, compression="gzip")
            else:
                names = file.create_group("obs").create_group("name")
                file["obs"].attrs["_index"] = "name"
                names.attrs["encoding-type"] = "categorical"
                names["categories"] = ["ab"]
                names.create_dataset("codes", data=rows[:, 0], compression="gzip")

    with pytest.raises(InputError, match="identifies"):
        open_embeddings(path)


def test_a_limit_may_be_given_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(InputError, match="at most 7 "), allowing("7"):
        check_identities(8, label="a")
    with pytest.raises(InputError, match="lots"), allowing("lots"):
        raise AssertionError("not reached")
    check_identities(8, label="a")


def test_what_the_file_only_claims_is_refused_too(tmp_path: Path) -> None:
    whole = tmp_path / "whole.npy"
    np.save(whole, np.zeros((4, 4), np.float32))
    header = whole.read_bytes()[:128].replace(b"(4, 4)", b"(10000000, 64)"[:14])
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("emb.npy", header[:117] + b" " * 10 + b"\n" + bytes(64))

    with pytest.raises(InputError, match=r"a\.npz"):
        open_embeddings(tmp_path / "a.npz")


def test_the_environment_raises_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", emb=np.zeros((ROWS, COLUMNS), np.float32))
    monkeypatch.setenv(VARIABLE, "1G")

    assert open_embeddings(tmp_path / "a.npz").n_rows == ROWS


def test_a_smaller_limit_holds_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"emb": np.ones((100, 50))})
    monkeypatch.setenv(VARIABLE, "20K")

    with pytest.raises(InputError, match=r"40000 .*20480 "):
        open_embeddings(tmp_path / "a.mat")


def test_a_limit_that_is_no_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "lots")

    with pytest.raises(InputError, match=r"REPALIGN_FOREIGN_BYTES: .*'lots'"):
        check_identities(1, label="a")


def test_the_message_names_what_would_be_enough(tmp_path: Path) -> None:
    (tmp_path / "a").touch()

    with pytest.raises(InputError, match="REPALIGN_FOREIGN_BYTES=4G"):
        check_copy(tmp_path / "a", 4 * 2**30, label="a")
    check_copy(tmp_path / "a", 2**29, label="a")


@pytest.mark.parametrize("name", ["ids", "token", "sample_sha"])
def test_identities_of_gigabytes_are_refused_before_they_are_read(
    tmp_path: Path, name: str
) -> None:
    header = {"descr": "|S1024" if name == "ids" else "<i8", "fortran_order": False}
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        with archive.open("emb.npy", "w") as stream:
            np.lib.format.write_array(stream, np.ones((3, 2)))
        with archive.open(f"{name}.npy", "w") as stream:
            np.lib.format.write_array_header_1_0(stream, {**header, "shape": (2**28,)})

    with pytest.raises(InputError, match=r"identifies .* [0-9]+ bytes"):
        open_embeddings(tmp_path / "a.npz")


def test_a_parquet_column_of_one_long_text_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = {"id": ["x" * 1_000_000] * 1000, "a": np.ones(1000), "b": np.ones(1000)}
    pd.DataFrame(table).to_parquet(tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 2**21

    with pytest.raises(InputError, match="identifies"):
        open_embeddings(tmp_path / "a.parquet")


def test_tables_wider_than_any_view_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(["1"] * 1_000_000) + "\n")

    with pytest.raises(InputError, match=r" 1000000 .* 32768 "):
        open_embeddings(tmp_path / "a.csv")


def repeated(n_rows: int, n_letters: int) -> Any:
    """Return a column of one long text, which is stored once."""
    pa = pytest.importorskip("pyarrow")
    places = pa.array(np.zeros(n_rows, np.int32))
    return pa.DictionaryArray.from_arrays(places, pa.array(["x" * n_letters]))


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("store_schema", [True, False])
def test_a_parquet_text_that_is_stored_once_counts_in_every_row(
    tmp_path: Path, store_schema: bool
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ids = repeated(2000, 1000)
    table = pa.table({"id": ids, "a": np.ones(2000), "b": np.ones(2000)})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", store_schema=store_schema)

    with pytest.raises(InputError, match=r"identifies .* 2000000 "):
        open_embeddings(tmp_path / "a.parquet")
    texts = pa.table({"text": ids})
    pq.write_table(texts, tmp_path / "t.parquet", compression="zstd", store_schema=store_schema)
    with pytest.raises(InputError, match="expand to 2000000 bytes"):
        ParquetColumn(tmp_path / "t.parquet", None, None).read(0)
    with pytest.raises(InputError, match="expand to 8000000 bytes"):
        open_columns(tmp_path / "t.parquet")


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("is_fixed", [True, False])
def test_parquet_lists_are_measured_before_they_are_read(
    tmp_path: Path, is_fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2**18, np.float32)), 2**12)
    column = lists if is_fixed else lists.cast(pa.list_(pa.float32()))
    pq.write_table(pa.table({"emb": column}), tmp_path / "a.parquet", compression="zstd")
    read = pq.ParquetFile.iter_batches

    def read_one(file: Any, batch_size: int, columns: list[str]) -> Iterator[Any]:
        assert batch_size == 1  # which says how long the lists are
        return read(file, batch_size, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", read_one)

    with pytest.raises(InputError, match="expand to 2097152 bytes"):
        open_embeddings(tmp_path / "a.parquet")


def test_wide_parquet_tables_are_read_in_batches_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("repalign.parquet.BATCH_BYTES", 2**12)
    values = np.random.default_rng(0).standard_normal((100, 64))
    frame = pd.DataFrame(values, columns=[f"x{place}" for place in range(64)])
    frame.to_parquet(tmp_path / "a.parquet")
    np.testing.assert_array_equal(open_embeddings(tmp_path / "a.parquet").rows.read(0, 100), values)
