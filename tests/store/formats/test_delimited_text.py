"""Tables of text: headers, ids and indexes found; every cell that is no number named."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repalign.exceptions import InputError
from repalign.store.open import open_embeddings


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t")])
def test_a_frame_with_its_index_is_read_with_ids(
    tmp_path: Path, values: np.ndarray, names: list[str], suffix: str, separator: str
) -> None:
    path = tmp_path / f"a.{suffix}"
    pd.DataFrame(values.astype(np.float64), index=names).to_csv(path, sep=separator)

    source = open_embeddings(path)

    np.testing.assert_array_equal(source.rows.read(0, 50), values.astype(np.float64))
    assert source.index.ids[2] == b"cat-2"
    assert source.info["ids_from"].endswith("::index")


def test_a_numbered_index_of_pandas_is_no_column_of_values(
    tmp_path: Path, values: np.ndarray
) -> None:
    pd.DataFrame(values).to_csv(tmp_path / "a.csv")

    source = open_embeddings(tmp_path / "a.csv")

    assert (source.dim, source.index.ids[9]) == (4, b"9")


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("a.txt", " ")])
def test_bare_numbers_have_no_header_and_no_ids(
    tmp_path: Path, values: np.ndarray, name: str, separator: str
) -> None:
    np.savetxt(tmp_path / name, values, delimiter=separator)

    source = open_embeddings(tmp_path / name)

    np.testing.assert_array_equal(source.rows.read(0, 50).astype(np.float32), values)
    assert source.identity == "row order"


@pytest.mark.parametrize(
    ("header", "ids"),
    [("e0,id,e1", [b"a", b"NA"]), ("e0,Sample_ID,e1", [b"a", b"NA"])],
)
def test_a_column_named_as_ids_gives_ids(tmp_path: Path, header: str, ids: list[bytes]) -> None:
    source = open_embeddings(write(tmp_path / "a.csv", f"{header}\n1,a,2\n3,NA,4\n"))

    assert source.index.ids.tolist() == ids
    np.testing.assert_array_equal(source.rows.read(0, 2), [[1, 2], [3, 4]])


def test_the_column_of_ids_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "e0,e1,key\n1,2,7\n3,4,8\n")

    assert open_embeddings(path).dim == 3
    assert open_embeddings(path, id_column="key").index.ids.tolist() == [b"7", b"8"]
    with pytest.raises(InputError, match=r"column 'name'.*e0, e1, key"):
        open_embeddings(path, id_column="name")


def test_token_and_hash_columns_are_part_of_the_identity(tmp_path: Path) -> None:
    sha = "00" * 15 + "ff"
    path = write(
        tmp_path / "a.csv", f"id,token,sample_sha,e0\na,0,{sha},1.5\na,1,{sha},2.5\nb,0,{sha},3\n"
    )

    index = open_embeddings(path).index

    assert index.token.tolist() == [0, 1, 0]
    assert index.sample.tolist() == [0, 0, 1]
    assert index.sample_sha[:, 15].tolist() == [255, 255, 255]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("id,e0,e0\na,1,2\n", "has two columns 'e0'; rename one"),
        ("id\na\n", "has no column of numbers"),
        ("id,e0\na,1\nb,x\n", "row 1 has 'x' in column 'e0'; expected a number"),
        (
            "id,e0\na,1\nb,\n",
            "row 1 has a missing value in column 'e0'; expected a number in every cell",
        ),
        ("id,e0\na,1\n,2\n", "row 1 has no id"),
        ("id,e0\na,1\nb,2,3\n", "line 3 has 3 cells"),
        ("id,token,e0\na,x,1\n", "column 'token' holds invalid literal"),
        ("id,sample_sha,e0\na,zz,1\n", "column 'sample_sha' holds no hexadecimal hash"),
        ("id,sample_sha,e0\na,00ff,1\n", "row 0 has a 'sample_sha' of 2 bytes; expected 16"),
        ("id,e0\na,1_000\nb,2\n", "row 0 has '1_000' in column 'e0'"),
        ("id,e0\na,１２\nb,2\n", "row 0 has '１２' in column 'e0'"),
        ("id,e0\na,1\nb,True\n", "row 1 has 'True' in column 'e0'"),
        ("id,e0\na,True\nb,False\n", "has no column of numbers"),
        ("id;e0\na;1,5\nb;2,5\nc;2.5\n", "row 2 has '2.5' in column 'e0'"),
        ("id;e0\na;1,5\nb;1.234,5\n", "row 1 has '1.234,5' in column 'e0'"),
        ("id,e0\n", "has shape 0 × 1; it holds no value"),
    ],
)
def test_tables_that_are_no_embeddings_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"a.csv.*{message}"):
        open_embeddings(write(tmp_path / "a.csv", text))


def test_columns_of_text_are_left_out_and_named(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", "id,e0,well,e1,on\na,1,B02,2,True\nb,3,3,4,False\nc,5,C1,6,True\n"
    )

    source = open_embeddings(path)

    assert source.columns == ("e0", "e1")
    assert source.info["left_out"] == ["well", "on"]
    np.testing.assert_array_equal(source.rows.read(0, 3), [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", '"V1","V2"\n"1",0.5,1.5\n"2",2.5,3.5\n'),
        ("r.txt", '"V1" "V2"\n"1" 0.5 1.5\n"2" 2.5 3.5\n'),
        ("german.csv", '"";"V1";"V2"\n"1";0,5;1,5\n"2";2,5;3,5\n'),
    ],
)
def test_tables_of_r_and_of_a_german_spreadsheet_keep_their_columns(
    tmp_path: Path, name: str, text: str
) -> None:
    source = open_embeddings(write(tmp_path / name, text))

    np.testing.assert_array_equal(source.rows.read(0, 2), [[0.5, 1.5], [2.5, 3.5]])
    assert source.index.ids.tolist() == [b"1", b"2"]


def test_ids_that_are_not_taken_are_no_values(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,sample_id,well,e0\n7,0,B02,1\n8,1,B03,2\n")
    assert open_embeddings(path).columns == ("e0",)
    source = open_embeddings(path, id_column="well")
    assert (source.columns, source.index.ids.tolist()) == (("e0",), [b"B02", b"B03"])


def test_an_index_beside_ids_is_no_value(tmp_path: Path) -> None:
    source = open_embeddings(write(tmp_path / "a.csv", ",id,e0\n0,x,1\n1,y,2\n"))
    assert (source.columns, source.index.ids.tolist()) == (("e0",), [b"x", b"y"])


def test_nan_is_refused_by_row(tmp_path: Path) -> None:
    rows = open_embeddings(write(tmp_path / "a.csv", "id,e0\na,1\nb,nan\n")).rows

    with pytest.raises(InputError, match=r"row 1 .*nan .*column 0"):
        rows.read(0, 2)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,e0\n\xff\xfe,1\n")

    with pytest.raises(InputError, match="UTF-8"):
        open_embeddings(tmp_path / "a.csv")


def test_a_table_has_no_views(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="view 'x'"):
        open_embeddings(write(tmp_path / "a.csv", "1,2\n"), view="x")


def test_a_number_with_a_long_exponent_is_named_and_no_crash(tmp_path: Path) -> None:
    broken = write(tmp_path / "a.csv", "0.5,1.5\n0.25,-1.e521929651498794556e-01\n")
    with pytest.raises(InputError, match=r"row 1 .*'-1.e521929651498794556e-01'.* '1'"):
        open_embeddings(broken)
    huge = write(tmp_path / "b.csv", "0.5,1.5\n0.25,1e521929651498794556\n")
    with pytest.raises(InputError, match=r"row 1 .*inf .*column 1"):
        open_embeddings(huge).rows.read(1, 2)
