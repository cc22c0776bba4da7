"""MATLAB files: what scipy and MATLAB write is read, what is none is refused."""

import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from repalign.exceptions import InputError
from repalign.store.open import open_embeddings


@pytest.mark.parametrize(
    ("kind", "do_compression"),
    [("f4", True), ("f8", False), ("i1", True), ("u2", False), ("i8", True)],
)
def test_every_type_survives(tmp_path: Path, kind: str, do_compression: bool) -> None:
    values = (np.arange(21).reshape(7, 3) % 5).astype(kind)
    scipy.io.savemat(tmp_path / "a.mat", {"emb": values}, do_compression=do_compression)

    np.testing.assert_array_equal(open_embeddings(tmp_path / "a.mat").rows.read(0, 7), values)


def element(kind: int, content: bytes, order: str) -> bytes:
    return struct.pack(f"{order}II", kind, len(content)) + content + b"\0" * (-len(content) % 8)


@pytest.mark.parametrize(("order", "mark"), [("<", b"IM"), (">", b"MI")])
def test_narrow_storage_and_byte_order(tmp_path: Path, order: str, mark: bytes) -> None:
    """MATLAB stores a matrix of doubles that are small integers as bytes."""
    flags = element(6, struct.pack(f"{order}II", 6, 0), order)
    dimensions = element(5, struct.pack(f"{order}ii", 2, 3), order)
    name = struct.pack(f"{order}I", 3 << 16 | 1) + b"emb\0"
    numbers = element(2, bytes([1, 4, 2, 5, 3, 6]), order)
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(f"{order}H", 0x0100) + mark
    matrix = element(14, flags + dimensions + name + numbers, order)
    (tmp_path / "a.mat").write_bytes(header + matrix)

    source = open_embeddings(tmp_path / "a.mat")

    np.testing.assert_array_equal(source.rows.read(0, 2), [[1, 2, 3], [4, 5, 6]])
    assert source.rows.dtype == np.float64


def test_a_variable_per_row_gives_ids(tmp_path: Path, values: np.ndarray) -> None:
    variables = {f"cat_{row}": vector for row, vector in enumerate(values)}
    scipy.io.savemat(tmp_path / "a.mat", variables)

    source = open_embeddings(tmp_path / "a.mat")

    np.testing.assert_array_equal(source.rows.read(0, 50), values)
    assert source.index.ids[6] == b"cat_6"
    assert source.info["ids_from"].endswith("variables)")


def test_variables_of_other_kinds_are_left_aside(tmp_path: Path, values: np.ndarray) -> None:
    others = {
        "cells": np.array(["a", values], dtype=object),
        "text": "hello",
        "record": {"x": 1.0},
        "sparse": scipy.sparse.csc_matrix(values),
    }
    scipy.io.savemat(tmp_path / "a.mat", {**others, "emb": values})

    source = open_embeddings(tmp_path / "a.mat")

    assert source.view == "emb"
    np.testing.assert_array_equal(source.rows.read(0, 50), values)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"a": np.zeros(3), "b": np.zeros(4)}, "lengths"),
        ({"a": np.zeros((2, 3, 4))}, r"has shape \(2, 3, 4\)"),
        ({"a": np.zeros((5, 2)), "b": np.zeros((5, 2))}, "holds 2 arrays"),
        ({"a": "text"}, "no array"),
        ({"a": np.ones((3, 2)) * 1j}, r"a.mat::a: .*complex"),
    ],
)
def test_files_that_are_no_embeddings_are_refused(
    tmp_path: Path, variables: dict[str, object], message: str
) -> None:
    scipy.io.savemat(tmp_path / "a.mat", variables)

    with pytest.raises(InputError, match=message):
        open_embeddings(tmp_path / "a.mat")


def test_damaged_and_newer_files_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"emb": values})
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:140], whole[:200], whole[:-8], whole + b"\x0e"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"a.mat\S*: .*cannot read"):
            open_embeddings(path)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF")
    with pytest.raises(InputError, match=r"7\.3.* -v7"):
        open_embeddings(path)
