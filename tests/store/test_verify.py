"""Verification refuses what reading refuses, and what the format forbids."""

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from repalign.exceptions import StoreError
from repalign.store import open_store, verify_store, write_store
from repalign.store.digests import canonical_json, column_root, leaf_digests, sha256_of
from repalign.store.format import index_column
from repalign.store.index import RowIndex

COUNT = 6


@pytest.fixture
def path(tmp_path: Path) -> Path:
    index = RowIndex(
        np.arange(COUNT), np.full(COUNT, -1), ids=np.array([f"cat-{i}" for i in range(COUNT)])
    )
    write_store(tmp_path / "a.h5", np.eye(COUNT), index=index)
    return tmp_path / "a.h5"


def reseal(path: Path, change: Callable[[h5py.File, dict], None], text: str = "") -> None:
    """Change a store as somebody could who knows the format: all checksums fit."""
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        content = json.loads(file["header_json"][()].tobytes())
        change(file, content)
        del content["fingerprint"]
        content["fingerprint"] = _fingerprint(content)
        written = text or canonical_json(content)
        del file["header_json"]
        file["header_json"] = np.frombuffer(written.encode(), np.uint8)
        file.attrs["header_sha256"] = np.bytes_(sha256_of(written))


def _fingerprint(content: dict) -> str:
    """Return the fingerprint as docs/store-format.md defines it."""
    kinds = {"sample": "<i8", "token": "<i4", "ids": "S"}
    columns = {}
    for path, root in content["digests"].items():
        part, name = path.split("/")
        width = content["views"][name]["dim"] if part == "emb" else None
        dtype = np.dtype(content["views"][name]["dtype"]).str if part == "emb" else kinds[name]
        columns[path] = {"root": root, "width": width, "dtype": dtype}
    return sha256_of(canonical_json({"n_rows": content["n_rows"], "columns": columns}))


def set_index(name: str, values: np.ndarray) -> Callable[[h5py.File, dict], None]:
    def change(file: h5py.File, content: dict) -> None:
        column = index_column(name, values.dtype.itemsize)
        file[column.path][...] = values
        leaves = leaf_digests(column, values)
        file[f"digests/{column.path}"][...] = np.frombuffer(b"".join(leaves), np.uint8)
        content["digests"][column.path] = column_root(leaves)

    return change


def ids_with(value: bytes) -> np.ndarray:
    return np.array([b"cat-0", value, *(f"cat-{i}".encode() for i in range(2, COUNT))], "S5")


def test_a_resealed_store_is_sound(path: Path) -> None:
    reseal(path, set_index("ids", ids_with(b"dog")))

    assert verify_store(path).is_sound


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("ids", ids_with(b""), "empty"),
        ("ids", ids_with(b"\xff"), "is not UTF-8"),
        ("ids", ids_with(b"a\0b"), "NUL"),
        ("sample", np.arange(COUNT) - 1, "sample has values from -1"),
        ("token", np.full(COUNT, -2, np.int32), "token has values from -2"),
    ],
)
def test_identities_that_no_row_has_are_not_sound(
    path: Path, name: str, values: np.ndarray, message: str
) -> None:
    reseal(path, set_index(name, values))

    with open_store(path) as store, pytest.raises(StoreError, match=message):
        store.index.slice(0, COUNT)
    found = verify_store(path)
    assert not found.is_sound
    assert message in found.problems[0]


@pytest.mark.parametrize("where", ["/", "emb", "emb/embedding", "digests/emb", "header_json"])
def test_attributes_that_the_format_has_not_are_refused(path: Path, where: str) -> None:
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        file[where].attrs["note"] = 3

    assert "attribute 'note'" in verify_store(path).problems[0]


def test_a_header_with_one_key_twice_is_refused(path: Path) -> None:
    with h5py.File(path, "r") as file:
        text = file["header_json"][()].tobytes().decode()
    reseal(path, lambda file, content: None, text=text[:-1] + ',"licence":"free"}')

    assert "canonical JSON" in verify_store(path).problems[0]


def test_identifiers_that_read_alike_in_a_row_have_another_fingerprint(tmp_path: Path) -> None:
    fingerprints = set()
    for ids in (["ab", "c"], ["a", "bc"]):
        write_store(tmp_path / f"{ids[0]}.h5", np.eye(2), ids=ids)
        with open_store(tmp_path / f"{ids[0]}.h5") as store:
            fingerprints.add(store.fingerprint)
    assert len(fingerprints) == 2
