import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from repalign.exceptions import StoreError
from repalign.store.map_file import SavedMap, load_map, save_map


def a_map() -> SavedMap:
    rng = np.random.default_rng(0)
    matrix, shift = rng.normal(size=(4, 3)), rng.normal(size=3)
    return SavedMap("pca+ica", matrix, shift, {"source": "a.h5"}, np.arange(5, dtype=np.uint64))


def test_a_map_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    save_map(a_map(), tmp_path / "m.safetensors")

    loaded = load_map(tmp_path / "m.safetensors")

    assert loaded.kind == "pca+ica"
    assert loaded.metadata == {"source": "a.h5"}
    assert loaded.matrix.tolist() == a_map().matrix.tolist()
    assert loaded.shift.tolist() == a_map().shift.tolist()
    assert loaded.fitted_rows.tolist() == [0, 1, 2, 3, 4]
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]


def test_an_existing_file_is_replaced_only_when_told(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_map(a_map(), path)
    with pytest.raises(StoreError, match="already exists"):
        save_map(a_map(), path)
    save_map(SavedMap("rigid", np.eye(2), np.zeros(2)), path, overwrite=True)
    assert load_map(path).kind == "rigid"


@pytest.mark.parametrize(
    ("matrix", "shift", "message"),
    [
        (np.eye(2), np.zeros(3), r"matrix .*\(2, 2\).* shift \(3,\)"),
        (np.full((2, 2), np.nan), np.zeros(2), "not finite"),
    ],
)
def test_what_is_no_affine_map_is_not_saved(tmp_path: Path, matrix, shift, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        save_map(SavedMap("linear", matrix, shift), tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


def write_raw(path: Path, description: object, tensors: dict | None = None) -> Path:
    text = description if isinstance(description, str) else json.dumps(description)
    arrays = {
        "matrix": np.eye(2),
        "shift": np.zeros(2),
        "fitted_rows": np.empty(0, np.uint64),
    }
    save_file(tensors or arrays, path, {"repalign": text})
    return path


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such"):
        load_map(tmp_path / "m.safetensors")


def test_a_file_that_is_no_safetensors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"hello")
    with pytest.raises(StoreError, match="whole safetensors file"):
        load_map(path)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_map(a_map(), path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(StoreError, match="whole safetensors file"):
        load_map(path)


def test_other_safetensors_files_are_refused(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "m.safetensors", {}, {"weight": np.eye(2)})
    with pytest.raises(StoreError, match="not a map"):
        load_map(path)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("{", "description: not JSON"),
        ({"format_version": 99}, "version 99,"),
        ({"format_version": 1}, "version 1,"),
        ([], "description: .*object"),
        ({"format_version": 3, "kind": "x"}, "'sha256'.*missing"),
        (
            {"format_version": 3, "kind": "x", "sha256": "0", "metadata": {}},
            "checksum",
        ),
    ],
)
def test_wrong_descriptions_are_refused(tmp_path: Path, description, message: str) -> None:
    path = write_raw(tmp_path / "m.safetensors", description)
    with pytest.raises(StoreError, match=message):
        load_map(path)


def test_a_changed_value_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_map(a_map(), path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match="checksum"):
        load_map(path)


@pytest.mark.parametrize("change", [("pca+ica", "rigid+x"), ("a.h5", "b.h5")])
def test_changed_metadata_is_noticed(tmp_path: Path, change: tuple[str, str]) -> None:
    path = tmp_path / "m.safetensors"
    save_map(a_map(), path)
    old, new = (text.replace('"', r"\"").replace(": ", ":").encode() for text in change)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))

    with pytest.raises(StoreError, match="checksum"):
        load_map(path)
