"""`write_store` with ids, and what it refuses."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import repalign
from repalign import InputError
from repalign.core.affine import AffineMap, MappedRows
from repalign.store.index import pooled_index

ROWS = np.eye(3)
IDS = ["a", "ü", "c d"]


@pytest.mark.parametrize("kind", [list, tuple, np.array, iter])
def test_a_list_of_texts_names_the_rows(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    repalign.write_store(path, ROWS, ids=kind(IDS))
    source = repalign.open_embeddings(path)
    assert source.identity == "ids"
    assert [value.decode() for value in source.index.ids.tolist()] == IDS


def test_rows_are_joined_by_these_ids(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((60, 3))
    ids = [f"row {number}" for number in range(60)]
    repalign.write_store(tmp_path / "a.h5", rows, ids=ids)
    repalign.write_store(tmp_path / "b.h5", rows[::-1], ids=ids[::-1])
    asked = {"quick": True, "maps": "rigid"}
    result = repalign.compare(tmp_path / "a.h5", tmp_path / "b.h5", **asked)
    assert result.records[0].error < 1e-6


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ids": "abc"}, "ids: got 'abc', expected a list of texts"),
        ({"ids": 3}, "ids: got 3, expected"),
        ({"ids": ["a", "b"]}, "ids: got 2 for 3 rows"),
        ({"ids": ["a", None, "c"]}, "ids: got None for row 1, expected a text"),
        ({"ids": ["a", "", "c"]}, "row index: the id"),
        ({"ids": IDS, "index": pooled_index(3)}, "ids: got them together with index"),
        ({"index": IDS}, "index: got"),
        ({"options": {"dtype": "float16"}}, "options: got dict, expected WriteOptions"),
        ({"spec": "model"}, "spec: got 'model', expected a dictionary"),
    ],
)
def test_wrong_arguments_are_refused_in_a_line(
    given: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as failure:
        repalign.write_store(tmp_path / "a.h5", ROWS, **given)
    assert str(failure.value).startswith(told)
    assert "\n" not in str(failure.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rows", [None, "x", [[1.0], [1.0, 2.0]], np.zeros(3), [["a"]], {}, 3])
def test_what_is_no_matrix_is_refused_in_a_line(rows: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError) as failure:
        repalign.write_store(tmp_path / "a.h5", rows)
    assert "\n" not in str(failure.value)
    assert not list(tmp_path.iterdir())


def test_arrays_in_place_of_the_path_are_refused() -> None:
    with pytest.raises(InputError, match="path: got ndarray"):
        repalign.write_store(ROWS, IDS)


@pytest.mark.parametrize("name", ["a.h5", "folder"])
def test_rows_are_not_written_over_the_store_that_they_are_read_from(tmp_path, name) -> None:
    path, values = tmp_path / name, np.eye(3, dtype=np.float32)
    repalign.write_store(path, values)
    with repalign.open_store(path) as store:
        wrapped = MappedRows(
            store.view("embedding"), AffineMap("double", 2 * np.eye(3), np.ones(3))
        )
        for rows in (store.view("embedding"), wrapped, repalign.open_embeddings(path).rows):
            with pytest.raises(InputError, match=r"is the input "):
                repalign.write_store(path, rows, overwrite=True)
        repalign.write_store(tmp_path / "b.h5", wrapped)
    assert np.array_equal(repalign.open_embeddings(path).rows.read(0, 3), values)
    assert np.array_equal(
        repalign.open_embeddings(tmp_path / "b.h5").rows.read(0, 3), 2 * values + 1
    )


def test_foreign_rows_are_not_written_over_either(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.eye(3)
    rows = repalign.open_embeddings(tmp_path / "a.h5").rows
    with pytest.raises(InputError, match="is the input"):
        repalign.write_store(tmp_path / "a.h5", rows, overwrite=True)
    assert np.array_equal(repalign.open_embeddings(tmp_path / "a.h5").rows.read(0, 3), np.eye(3))


def test_a_tensor_that_requires_grad_is_detached(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    rows = torch.ones(3, 2, requires_grad=True)
    assert repalign.write_store(tmp_path / "a.h5", rows).n_rows == 3
    assert rows.requires_grad
    with pytest.raises(InputError):
        repalign.write_store(tmp_path / "b.h5", [rows, rows])


@pytest.mark.parametrize("views", [{None: 4}, {3: 4}, {"a": None}, {"a": 2.0}, {"a": (4,)}])
def test_views_of_a_writer_are_names_with_numbers_of_columns(views: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="views"):
        repalign.StoreWriter(tmp_path / "a.h5", spec={}, views=views)
