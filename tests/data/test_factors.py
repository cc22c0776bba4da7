import random
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repalign.data.factors import has_missing, read_columns, table_of
from repalign.exceptions import InputError, MissingExtraError, RepalignError


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": ["001", "002", "003"],
            "shape": ["heart", None, "square"],
            "scale": [0.5, np.nan, 1.0],
            "x": [3, 1, 2],
        }
    )


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_tables_are_read_with_ids_as_text_and_missing_values_marked(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"factors{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame().to_parquet(path)
    else:
        frame().to_csv(path, sep="\t" if suffix == ".tsv" else ",", index=False)

    table = read_columns(path)

    assert table.ids == ("001", "002", "003")
    assert list(table.columns) == ["shape", "scale", "x"]
    assert table.column("shape").tolist() == ["heart", "", "square"]
    assert table.column("x").tolist() == [3, 1, 2]
    for name in ("shape", "scale"):
        assert has_missing(table.column(name)).tolist() == [False, True, False]
    assert not has_missing(table.column("x")).any()


def test_the_id_column_can_be_another_and_columns_can_be_chosen(tmp_path: Path) -> None:
    frame().rename(columns={"id": "well"}).to_csv(tmp_path / "f.csv", index=False)
    table = read_columns(tmp_path / "f.csv", id_column="well", only=["x"])
    assert table.ids == ("001", "002", "003")
    assert list(table.columns) == ["x"]
    assert read_columns(tmp_path / "f.csv", only=["x"]).ids is None


def test_npz_arrays_of_one_and_two_dimensions_are_columns(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez(
        path,
        images=np.zeros((4, 2, 2)),
        latents_classes=np.arange(8).reshape(4, 2),
        named=np.arange(8).reshape(4, 2),
        named_names=np.array(["shape", "hue"]),
        ids=np.array(["a", "b", "c", "d"]),
        weight=np.arange(4.0),
    )

    table = read_columns(path)

    assert list(table.columns) == [
        "latents_classes.0", "latents_classes.1", "shape", "hue", "weight",
    ]  # fmt: skip
    assert table.column("hue").tolist() == [1, 3, 5, 7]
    assert table.ids == ("a", "b", "c", "d")
    assert "(4, 2, 2)" in table.notes[0]


def test_pickled_arrays_are_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    np.savez(path, x=np.arange(3), metadata=np.array({"a": 1}, dtype=object))
    assert list(read_columns(path).columns) == ["x"]


def test_columns_in_memory_become_a_table() -> None:
    table = table_of({"a": [1, 2], "b": ["x", None]}, ids=["p", "q"])
    assert table.ids == ("p", "q")
    assert table.column("b").tolist() == ["x", ""]


@pytest.mark.parametrize(
    ("columns", "ids", "message"),
    [
        ({"a": [1, 2], "b": [1]}, None, "a 2, b 1"),
        ({"a": [[1, 2]]}, None, r"\(1, 2\)"),
        ({}, None, "no column"),
        ({"a": []}, None, "no column"),
        ({"a": [1]}, ["p", "q"], "2 ids"),
        ({"a": [1, 2], "id": ["p", "p"]}, None, "id 'p'"),
    ],
)
def test_unusable_columns_are_refused(columns, ids, message: str) -> None:
    with pytest.raises(InputError, match=message):
        table_of(columns, ids=ids)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv"):
        read_columns(tmp_path / "none.csv")
    (tmp_path / "a.xlsx").write_bytes(b"")
    with pytest.raises(InputError, match=r"\.csv, \.tsv, \.npz, \.parquet"):
        read_columns(tmp_path / "a.xlsx")
    (tmp_path / "a.npz").write_bytes(b"no zip")
    with pytest.raises(InputError, match="npz"):
        read_columns(tmp_path / "a.npz")
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(InputError, match="empty"):
        read_columns(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("plate,treated\nA,1\nB\n")
    with pytest.raises(InputError, match="line 3"):
        read_columns(tmp_path / "a.csv")
    np.savez(tmp_path / "b.npz", a=np.zeros((2, 3)), a_names=np.array(["x"]))
    with pytest.raises(InputError, match=r"1 names.* 3"):
        read_columns(tmp_path / "b.npz")


def test_an_unknown_column_is_named_beside_those_there_are(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "f.csv", index=False)
    with pytest.raises(InputError, match=r"'hue'.* id, shape"):
        read_columns(tmp_path / "f.csv", only=["hue"])


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f.parquet").write_bytes(b"PAR1")
    for name in ("pyarrow", "fastparquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match="pip install pyarrow"):
        read_columns(tmp_path / "f.parquet")


def test_a_number_with_a_long_exponent_is_text_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "factors.csv").write_text("id,size\na,1e521929651498794556\nb,2\n")
    found = read_columns(tmp_path / "factors.csv").column("size")
    assert found.tolist() == ["1e521929651498794556", "2"]


def test_numbers_are_read_to_the_last_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(1000)
    text = "".join(f"{value!r}\n" for value in values.tolist())
    (tmp_path / "factors.csv").write_text(f"size\n{text}")
    np.testing.assert_array_equal(read_columns(tmp_path / "factors.csv").column("size"), values)


def test_tables_with_semicolons_and_decimal_commas_say_so(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("id;dose;plate\nNA;0,5;A\n02;1,25;B\n")
    table = read_columns(tmp_path / "f.csv")
    assert table.ids == ("NA", "02")
    assert table.column("dose").tolist() == [0.5, 1.25]
    assert any("decimal comma" in note for note in table.notes)


@pytest.mark.parametrize(
    ("index", "ids"), [([0, 1, 2], None), ([1, 2, 3], None), (["a", "b", "c"], ("a", "b", "c"))]
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_index_gives_ids_unless_it_counts_rows_and_is_no_factor(
    tmp_path: Path, index: list, ids: tuple[str, ...] | None, suffix: str
) -> None:
    path = tmp_path / f"f{suffix}"
    table = pd.DataFrame({"x": [0.5, 1.5, 2.5]}, index=index)
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(path)
    else:
        table.to_csv(path)

    found = read_columns(path)

    assert (found.ids, list(found.columns)) == (ids, ["x"])


def test_a_row_without_an_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("id,x\na,1\n,2\n")
    with pytest.raises(InputError, match="row 1"):
        read_columns(tmp_path / "f.csv")


def test_lists_of_a_parquet_file_are_no_columns(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pd.DataFrame({"vec": [[1.0], [2.0]], "x": [1, 2]}).to_parquet(tmp_path / "f.parquet")
    assert list(read_columns(tmp_path / "f.parquet").columns) == ["x"]


@pytest.mark.parametrize("name", ["f.npz", "packed.npz", "f.parquet", "f.csv"])
def test_damaged_tables_are_read_or_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".npz":
        save = np.savez_compressed if name == "packed.npz" else np.savez
        save(path, x=np.arange(40.0), ids=np.arange(40).astype(str), m=np.eye(40)[:, :3])
    elif path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame().to_parquet(path)
    else:
        frame().to_csv(path)
    content, chance = path.read_bytes(), random.Random(name)
    for _ in range(80):
        damaged = bytearray(content)
        for _ in range(chance.choice([1, 4])):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with suppress(RepalignError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read_columns(path)


def test_an_array_that_is_called_npz_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.arange(3))
    (tmp_path / "f.npy").rename(tmp_path / "f.npz")
    with pytest.raises(InputError, match="npz"):
        read_columns(tmp_path / "f.npz")
