"""Small files that would become large ones, and identities that would fill the memory."""

import zipfile
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io

from repalign.exceptions import InputError
from repalign.store.foreign.budget import VARIABLE, allowing, check_copy, check_identities
from repalign.store.sources.opening import open_embeddings

ROWS, COLUMNS = 300_000, 256  # 300 MB of zeros, 300 kB packed


def test_an_archive_that_expands_a_thousandfold_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", emb=np.zeros((ROWS, COLUMNS), np.float32))

    with pytest.raises(
        InputError, match=r"a.npz::emb: \d+ bytes expand to 307200000 bytes, at most 268435456 are"
    ):
        open_embeddings(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["a.h5", "a.h5ad", "a.zarr"])
def test_compressed_values_read_in_place_expand_no_further(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    if path.suffix == ".zarr":
        zarr = pytest.importorskip("zarr")
        zeros = np.zeros((ROWS, COLUMNS), np.float32)
        with zarr.config.set({"array.write_empty_chunks": True}):
            zarr.create_array(str(path), data=zeros, chunks=(10_000, COLUMNS))
    else:
        with h5py.File(path, "w") as file:
            zeros = np.zeros((ROWS, COLUMNS), np.float32)
            zeros[::500] = np.random.default_rng(0).standard_normal(COLUMNS)
            file.create_dataset("X", data=zeros, chunks=(10_000, COLUMNS), compression="gzip")

    with pytest.raises(InputError, match=r"\d+ bytes expand to 307200000 bytes, at most 268435456"):
        open_embeddings(path)

    monkeypatch.setenv(VARIABLE, "1G")
    assert open_embeddings(path).n_rows == ROWS


def test_a_limit_may_be_given_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(InputError, match="at most 7 are allowed"), allowing("7"):
        check_identities(8, label="a")
    with pytest.raises(InputError, match="expected a size such as 8G"), allowing("lots"):
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

    with pytest.raises(InputError, match=r"expand to 40000 bytes, at most 20480 are allowed"):
        open_embeddings(tmp_path / "a.mat")


def test_a_limit_that_is_no_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "lots")

    with pytest.raises(InputError, match="REPALIGN_FOREIGN_BYTES: got 'lots', expected a size"):
        check_identities(1, label="a")


def test_the_message_names_what_would_be_enough(tmp_path: Path) -> None:
    (tmp_path / "a").touch()

    with pytest.raises(InputError, match="set REPALIGN_FOREIGN_BYTES=4G"):
        check_copy(tmp_path / "a", 4 * 2**30, label="a")
    check_copy(tmp_path / "a", 2**28, label="a")


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

    with pytest.raises(InputError, match=r"what identifies the rows takes [0-9]+ bytes, at most"):
        open_embeddings(tmp_path / "a.npz")


def test_a_parquet_column_of_one_long_text_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = {"id": ["x" * 1_000_000] * 1000, "a": np.ones(1000), "b": np.ones(1000)}
    pd.DataFrame(table).to_parquet(tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 2**21

    with pytest.raises(InputError, match="what identifies the rows takes"):
        open_embeddings(tmp_path / "a.parquet")


def test_tables_wider_than_any_view_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(["1"] * 1_000_000) + "\n")

    with pytest.raises(InputError, match="has 1000000 columns; at most 32768 are read from text"):
        open_embeddings(tmp_path / "a.csv")
