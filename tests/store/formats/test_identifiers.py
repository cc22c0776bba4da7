"""Ids from a file beside the embeddings."""

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch

from repalign.conditions.columns import align_columns, open_columns
from repalign.exceptions import InputError
from repalign.store.formats.identifiers import read_ids
from repalign.store.matching import join_sources
from repalign.store.open import as_source, open_embeddings


def write(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


@pytest.mark.parametrize("text", ["a\nb c\n", "a\r\nb c\r\n", "a\nb c", "\ufeffa\nb c\n"])
def test_lines_are_ids(tmp_path: Path, text: str) -> None:
    assert read_ids(write(tmp_path / "ids.txt", text)) == ["a", "b c"]


@pytest.mark.parametrize(
    ("name", "text", "column"),
    [
        ("m.csv", "image\na\n007\n", ""),
        ("m.csv", "label,id\nx,a\ny,007\n", ""),
        ("m.csv", "image;label\na;x\n007;y\n", "::image"),
        ("m.tsv", "image\tlabel\na\tx\n007\ty\n", "::image"),
    ],
)
def test_a_column_of_a_table_gives_ids(tmp_path: Path, name: str, text: str, column: str) -> None:
    assert read_ids(write(tmp_path / name, text) + column) == ["a", "007"]


@pytest.mark.parametrize(
    ("name", "text", "column", "message"),
    [
        ("ids.txt", "a\n\nb\n", "", r"line 2 .*empty"),
        ("ids.txt", "a\n", "::image", "column 'image'"),
        ("m.csv", "image,label\na,x\n", "", r"image, label; .*::image"),
        ("m.csv", "image,label\na,x\n", "::key", "column 'key'.* image, label"),
        ("m.csv", "image,label\n,x\n", "::image", "row 0 .*'image'.*empty"),
        ("m.csv", "", "", "is empty"),
        ("m.csv", "image,label\na,x\nb\n", "::image", "line 3 "),
    ],
)
def test_files_without_ids_are_refused(
    tmp_path: Path, name: str, text: str, column: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_ids(write(tmp_path / name, text) + column)


def test_a_missing_file_and_bytes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ids.txt: .*no such"):
        read_ids(str(tmp_path / "ids.txt"))
    (tmp_path / "ids.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        read_ids(str(tmp_path / "ids.txt"))


def test_ids_of_every_kind_reach_the_index(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", values[:2])
    lines = write(tmp_path / "other.txt", "x\ny\n")
    expected = [b"x", b"y"]

    assert open_embeddings(tmp_path / "a.npy", ids=lines).index.ids.tolist() == expected
    assert open_embeddings(tmp_path / "a.npy", ids=Path(lines)).index.ids.tolist() == expected
    given = open_embeddings(tmp_path / "a.npy", ids=["x", "y"])
    assert (given.index.ids.tolist(), given.identity) == (expected, "ids")


def test_ids_beside_the_file_are_found(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", values[:2])
    write(tmp_path / "a.ids.txt", "x\ny\n")

    source = open_embeddings(tmp_path / "a.npy")

    assert source.index.ids.tolist() == [b"x", b"y"]
    assert source.info["ids_from"] == str(tmp_path / "a.ids.txt")


def test_ids_that_do_not_say_what_they_belong_to_are_used_with_a_warning(
    tmp_path: Path, values: np.ndarray
) -> None:
    np.save(tmp_path / "a.npy", values[:2])
    write(tmp_path / "a.ids.txt", "x\ny\n")
    found, given = open_embeddings(tmp_path / "a.npy"), as_source(values[:2], ids=["x", "y"])

    (warning,) = join_sources([given, found]).report.warnings

    assert "a.ids.txt" in warning
    table = open_columns({"id": ["y", "x"], "label": [0, 1]})
    assert any("a.ids.txt" in note for note in align_columns(found, table).notes)
    named = open_embeddings(tmp_path / "a.npy", ids=tmp_path / "a.ids.txt")
    assert join_sources([given, named]).report.warnings == ()


def test_a_wrong_number_of_ids_is_refused(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", values)

    with pytest.raises(InputError, match=r"ids.txt: .*2 ids, .*a.npy::a .*50 rows"):
        open_embeddings(tmp_path / "a.npy", ids=write(tmp_path / "ids.txt", "x\ny\n"))


def test_a_column_of_ids_that_is_not_there_is_refused(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "features.npy", values[:2])
    scipy.io.savemat(tmp_path / "a.mat", {"x": values[0], "y": values[1]})
    torch.save(torch.from_numpy(values), tmp_path / "a.pt")
    write(tmp_path / "file_names.txt", "x\ny\n")

    for path in (tmp_path, tmp_path / "features.npy", tmp_path / "a.pt"):
        with pytest.raises(InputError, match=r"no 'key'"):
            open_embeddings(path, id_column="key")
    with pytest.raises(InputError, match="holds 2 arrays, x"):
        open_embeddings(tmp_path / "a.mat", id_column="key")


def test_other_ids_for_a_file_that_carries_its_own_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,e0\nx,1\n")

    with pytest.raises(InputError, match=r"own ids \(.*a.csv::id\)"):
        open_embeddings(path, ids=["y"])
