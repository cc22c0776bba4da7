"""parquet files: columns or lists, ids from a column or the index of pandas."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repalign.data.factors import read_columns
from repalign.exceptions import InputError
from repalign.store.open import open_embeddings

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(path: Path, columns: dict[str, object], **options: object) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_columns_with_the_index_of_pandas(
    tmp_path: Path, values: np.ndarray, names: list[str]
) -> None:
    frame = pd.DataFrame(values, index=names, columns=[f"e{i}" for i in range(4)])
    frame.to_parquet(tmp_path / "a.parquet")

    source = open_embeddings(tmp_path / "a.parquet")

    np.testing.assert_array_equal(source.rows.read(0, 50), values)
    assert (source.view, source.rows.dtype) == ("columns", np.float32)
    assert source.index.ids[11] == b"cat-11"


@pytest.mark.parametrize("kind", ["list", "large_list", "fixed"])
def test_a_column_of_lists(tmp_path: Path, values: np.ndarray, names: list[str], kind: str) -> None:
    flat = pa.array(values.reshape(-1))
    kinds = {
        "list": lambda: pa.array(values.tolist(), pa.list_(pa.float32())),
        "large_list": lambda: pa.array(values.tolist(), pa.large_list(pa.float32())),
        "fixed": lambda: pa.FixedSizeListArray.from_arrays(flat, 4),
    }
    path = write(tmp_path / "a.parquet", {"id": names, "vec": kinds[kind]()}, row_group_size=7)

    source = open_embeddings(path)

    np.testing.assert_array_equal(source.rows.read(0, 50), values)
    assert (source.view, source.identity) == ("vec", "ids")


def test_lists_and_columns_ask_which(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"vec": [[1.0], [2.0]], "x": [1.0, 2.0], "y": [3.0, 4.0]})

    with pytest.raises(InputError, match=r"holds 2 arrays, .*columns \(2 × 2\)"):
        open_embeddings(path)
    rows = open_embeddings(path, view="columns").rows
    np.testing.assert_array_equal(rows.read(0, 2), [[1, 3], [2, 4]])


def test_the_column_of_ids_can_be_named_or_is_the_only_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"key": [7, 8], "name": ["a", "b"], "x": [1.0, 2.0]})

    assert open_embeddings(path).info["ids_from"].endswith("::name")
    assert open_embeddings(path, id_column="key").index.ids.tolist() == [b"7", b"8"]
    with pytest.raises(InputError, match=r"column 'label'.* key, name, x"):
        open_embeddings(path, id_column="label")
    with pytest.raises(InputError, match=r"row 0 .*1\.0 .*'x'"):
        open_embeddings(path, id_column="x")


def test_columns_of_text_metadata_and_labels_are_left_out_and_named(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.parquet",
        {"Metadata_Well": ["B02", "B03"], "x": [1.0, 2.0], "Metadata_n": [3, 4],
         "on": [True, False], "label": [0, 1], "y": [5, 6]},
    )  # fmt: skip

    source = open_embeddings(path, leave_out=["label"])

    assert (source.columns, source.identity) == (("x", "y"), "row order")
    assert source.info["left_out"] == ["Metadata_Well", "Metadata_n", "on", "label"]


def test_token_and_hash_columns_are_part_of_the_identity(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.parquet",
        {"id": ["a", "a"], "token": [0, 1], "sample_sha": ["ab" * 16] * 2, "x": [1.0, 2.0]},
    )

    index = open_embeddings(path).index

    assert (index.token.tolist(), index.sample.tolist()) == ([0, 1], [0, 0])
    assert index.sample_sha[0, 0] == 0xAB


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"vec": [[1.0], [2.0, 3.0]]}, "row 1 .*2 values, row 0 "),
        ({"vec": [[1.0], None]}, "row 1 .*no value .*'vec'"),
        ({"vec": [[1.0], [None]]}, "row 0 .*empty"),
        ({"x": [1.0, None]}, "row 1 .*no value .*'x'"),
        ({"id": ["a", None], "x": [1.0, 2.0]}, "row 1 .*None .*'id'"),
        ({"name": ["a", "b"]}, "no array"),
        ({"vec": pa.array([], pa.list_(pa.float32()))}, "holds no row"),
        ({"x": [1.0, float("inf")]}, "row 1 .*inf .*column 0"),
    ],
)
def test_tables_that_are_no_embeddings_are_refused(
    tmp_path: Path, columns: dict[str, object], message: str
) -> None:
    path = write(tmp_path / "a.parquet", columns)

    with pytest.raises(InputError, match=message):
        open_embeddings(path).rows.read(0, 2)


def test_lists_of_other_lengths_in_a_later_batch_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"vec": [[1.0]] * 8192 + [[1.0, 2.0]] * 8192})

    with pytest.raises(InputError, match=r"lists of 1 .* 2 "):
        open_embeddings(path)


@pytest.mark.parametrize("values", [[1.0, 2.0], [[1.0], [2.0]]])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, values: list) -> None:
    columns = [pa.array(values), pa.array([3.0, 4.0])]
    pq.write_table(pa.Table.from_arrays(columns, names=["x", "x"]), tmp_path / "a.parquet")

    for read in (open_embeddings, read_columns):
        with pytest.raises(InputError, match="two columns"):
            read(tmp_path / "a.parquet")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"x": [1.0, 2.0]})
    whole = path.read_bytes()
    for content in (b"", b"PAR1", whole[:-9], whole[:40] + whole[60:]):
        path.write_bytes(content)

        with pytest.raises(InputError, match="readable parquet file"):
            open_embeddings(path)


def test_without_pyarrow_the_extra_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"x": [1.0, 2.0]})
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from repalign.exceptions import MissingExtraError\n"
        "from repalign.store.open import open_embeddings\n"
        "try:\n    open_embeddings(sys.argv[1])\n"
        "except MissingExtraError as error:\n    sys.stdout.write(str(error))\n"
    )

    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.parquet"],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip

    assert "pip install pyarrow" in run.stdout
