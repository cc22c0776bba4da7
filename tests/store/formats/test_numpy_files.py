"""npy and npz files: every type, order and packing gives the values back, or a refusal."""

import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from repalign.exceptions import InputError
from repalign.store.open import open_embeddings


def read_all(path: Path | str, **options: str) -> np.ndarray:
    source = open_embeddings(path, **options)
    return source.rows.read(0, source.n_rows)


def test_npy_round_trip_is_read_by_position(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", values)

    source = open_embeddings(tmp_path / "a.npy")

    np.testing.assert_array_equal(source.rows.read(3, 9), values[3:9])
    np.testing.assert_array_equal(source.rows.take(np.array([0, 1, 7, 49])), values[[0, 1, 7, 49]])
    assert (source.view, source.identity, source.rows.dtype) == ("a", "row order", np.float32)
    assert source.rows.read(48, 60).shape == (2, 4)
    assert source.rows.take(np.array([], dtype=np.int64)).shape == (0, 4)


@pytest.mark.parametrize(
    ("kind", "read_as"),
    [
        ("<f2", "f2"), (">f4", "f4"), (">f8", "f8"), ("?", "f4"), ("i1", "f4"), ("<u2", "f4"),
        (">i4", "f8"), ("<u8", "f8"),
    ],
)  # fmt: skip
def test_every_type_of_number_keeps_its_values(tmp_path: Path, kind: str, read_as: str) -> None:
    values = (np.arange(12).reshape(4, 3) % 7).astype(kind)
    np.save(tmp_path / "a.npy", values)

    got = read_all(tmp_path / "a.npy")

    assert got.dtype == np.dtype(read_as)
    np.testing.assert_array_equal(got, values)


def test_column_order_is_read_row_by_row(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(values))

    np.testing.assert_array_equal(read_all(tmp_path / "a.npy"), values)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_round_trip_with_ids(
    tmp_path: Path, values: np.ndarray, names: list[str], save, order: str
) -> None:
    save(tmp_path / "a.npz", emb=np.asarray(values, order=order), ids=np.array(names))

    source = open_embeddings(tmp_path / "a.npz")

    np.testing.assert_array_equal(source.rows.read(0, 50), values)
    assert source.index.ids.tolist() == [name.encode() for name in names]
    assert source.info["ids_from"] == f"{tmp_path}/a.npz::ids"


def test_npz_with_several_matrices_asks_which(tmp_path: Path, values: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", first=values, second=values[:, :2])

    with pytest.raises(
        InputError,
        match=r"2 arrays, first \(50 × 4\), second \(50 × 2\).*a.npz::first",
    ):
        open_embeddings(tmp_path / "a.npz")
    np.testing.assert_array_equal(read_all(f"{tmp_path}/a.npz::second"), values[:, :2])
    with pytest.raises(InputError, match=r"view 'third'.* first \(50 × 4\)"):
        open_embeddings(tmp_path / "a.npz", view="third")


def test_npz_ids_from_a_named_array(tmp_path: Path, values: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", emb=values, image=np.arange(50))

    assert open_embeddings(tmp_path / "a.npz", id_column="image").index.ids[7] == b"7"
    with pytest.raises(InputError, match=r"array 'key'.* emb, image"):
        open_embeddings(tmp_path / "a.npz", id_column="key")
    with pytest.raises(InputError, match=r"a.npz::emb: .*float32.* \(50, 4\)"):
        open_embeddings(tmp_path / "a.npz", id_column="emb")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(5), r"shape \(5,\).* reshape"),
        (np.zeros((2, 3, 4)), r"shape \(2, 3, 4\).* pool"),
        (np.zeros((0, 3)), r"0 × 3"),
        (np.zeros((2, 0)), r"2 × 0"),
        (np.zeros((2, 2), complex), "complex128"),
        (np.array([["a"]]), "<U1"),
        (np.array([[{}]], object), "Python objects"),
        (np.zeros((2, 2), [("x", "f4")]), "expected real numbers"),
    ],
)  # fmt: skip
def test_arrays_that_are_no_embeddings_are_refused(
    tmp_path: Path, array: np.ndarray, message: str
) -> None:
    np.save(tmp_path / "a.npy", array, allow_pickle=True)

    with pytest.raises(InputError, match=message):
        open_embeddings(tmp_path / "a.npy")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_refused_by_number(
    tmp_path: Path, values: np.ndarray, bad: float
) -> None:
    values[17, 2] = bad
    np.save(tmp_path / "a.npy", values)
    rows = open_embeddings(tmp_path / "a.npy").rows

    for read in (lambda: rows.read(10, 30), lambda: rows.take(np.array([2, 17, 20]))):
        told = rf"a.npy::a: row 17 .*{bad} .*column 2 \(.* 1\)"
        with pytest.raises(InputError, match=told):
            read()
    assert rows.read(0, 17).shape == (17, 4)


def test_huge_finite_values_are_no_infinities(tmp_path: Path) -> None:
    values = np.full((3, 2), 1.7e308)
    np.save(tmp_path / "a.npy", values)

    np.testing.assert_array_equal(read_all(tmp_path / "a.npy"), values)


def test_integers_beyond_float64_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[2**53 + 1]]))

    with pytest.raises(InputError, match="9007199254740993"):
        read_all(tmp_path / "a.npy")


def test_a_header_that_promises_more_than_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**39, 2**17)}
        np.lib.format.write_array_header_1_0(stream, header)

    with pytest.raises(InputError, match=r"a\.npy: .*length"):
        open_embeddings(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY\x09\x00", b"\x93NUMPY\x01\x00\xff"])
def test_what_is_no_npy_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)

    with pytest.raises(InputError, match=r"a.npy: .*(readable|array of) npy"):
        open_embeddings(tmp_path / "a.npy")


def test_a_pickle_under_the_name_of_an_array_is_refused(tmp_path: Path) -> None:
    import pickle

    (tmp_path / "a.npy").write_bytes(pickle.dumps([1.0, 2.0]))

    with pytest.raises(InputError, match="readable npy array"):
        open_embeddings(tmp_path / "a.npy")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_flipped_bit_in_an_archive_is_noticed(tmp_path: Path, values: np.ndarray, save) -> None:
    path = tmp_path / "a.npz"
    save(path, emb=values)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))

    with pytest.raises(InputError, match=r"a.npz.*readable"):
        open_embeddings(path)


def test_an_array_cut_inside_its_archive_is_refused(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", values)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("emb.npy", (tmp_path / "a.npy").read_bytes()[:-8])

    with pytest.raises(InputError, match=r"a\.npz::emb: .*length"):
        open_embeddings(tmp_path / "a.npz")


def test_an_array_larger_than_the_disk_is_refused(
    tmp_path: Path, values: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "a.npz", emb=values)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=100))

    with pytest.raises(InputError, match=r"temporary copy.*TMPDIR"):
        open_embeddings(tmp_path / "a.npz")


def test_a_file_that_shrinks_while_in_use_is_an_error(tmp_path: Path, values: np.ndarray) -> None:
    path = tmp_path / "a.npy"
    np.save(path, values)
    rows = open_embeddings(path).rows
    with path.open("r+b") as stream:
        stream.truncate(400)

    with pytest.raises(InputError, match="changed"):
        rows.read(0, 50)


def test_npy_has_no_views(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", values)

    with pytest.raises(InputError, match="view 'emb'"):
        open_embeddings(tmp_path / "a.npy", view="emb")


@given(
    array=hnp.arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 5)),
                     elements=st.floats(-1e3, 1e3, width=32)),
    data=st.data(),
)  # fmt: skip
def test_slices_and_takes_equal_those_of_the_array(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("npy") / "a.npy"
    np.save(path, array)
    rows = open_embeddings(path).rows
    start, stop = (data.draw(st.integers(0, 12)) for _ in range(2))
    wanted = sorted(data.draw(st.sets(st.integers(0, len(array) - 1))))

    np.testing.assert_array_equal(rows.read(start, stop), array[start:stop])
    np.testing.assert_array_equal(rows.take(np.array(wanted, dtype=np.int64)), array[wanted])


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_pickled_objects_are_called_so_and_told_how_to_save(tmp_path: Path, suffix: str) -> None:
    objects = np.array([{"a": 1}, [1, 2]], dtype=object)
    if suffix == ".npy":
        np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    else:
        np.savez(tmp_path / "a.npz", x=objects)
    with pytest.raises(InputError, match=r"np.stack\(rows\).*objects"):
        open_embeddings(tmp_path / f"a{suffix}")
