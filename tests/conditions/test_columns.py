from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repalign.conditions.columns import align_columns, open_columns
from repalign.exceptions import InputError, RowMismatchError
from repalign.expansion import allowing
from repalign.store import write_store
from repalign.store.index import RowIndex
from repalign.store.open import as_source, open_embeddings

TABLE = {"hue": np.arange(10) % 3, "x": np.arange(10.0)}


def test_rows_are_found_by_their_sample_numbers() -> None:
    """Some samples of a data set, two tokens of each: every row takes the entry of its sample."""
    samples = np.repeat([7, 2, 4], 2)
    index = RowIndex(sample=samples, token=np.tile([0, 1], 3).astype(np.int32))
    source = as_source(np.zeros((6, 2)), name="tokens")
    source = replace(source, index=index, has_sample_numbers=True, identity="sample numbers")

    aligned = align_columns(source, open_columns(TABLE))

    assert aligned.columns["x"].tolist() == samples.tolist()
    assert "sample numbers" in " ".join(aligned.notes)


def test_a_view_of_a_store_holds_factors(tmp_path: Path) -> None:
    ids = [f"image {i}" for i in range(10)]
    values = np.stack([TABLE["hue"], TABLE["x"]], axis=1).astype(np.float32)
    source = as_source(values, ids=ids)
    write_store(tmp_path / "s.h5", {"factors": values, "emb": values}, index=source.index)

    table = open_columns(f"{tmp_path / 's.h5'}::factors")
    aligned = align_columns(open_embeddings(f"{tmp_path / 's.h5'}::emb"), table)

    assert list(table.columns) == ["factors.0", "factors.1"]
    assert table.ids == tuple(ids)
    assert aligned.columns["factors.1"].tolist() == TABLE["x"].tolist()
    assert aligned.notes == ()


def test_columns_that_are_empty_in_every_row_are_refused() -> None:
    table = open_columns({"hue": TABLE["hue"], "x": np.full(10, np.nan)})
    with pytest.raises(RowMismatchError, match=r"no row .*hue, x"):
        align_columns(as_source(np.zeros((10, 2))), table)


def test_nothing_in_common_is_refused_whatever_the_policy() -> None:
    source = as_source(np.zeros((2, 2)), ids=["a", "b"], name="latents")
    table = open_columns({"id": ["c", "d"], "hue": [0, 1]})
    with pytest.raises(RowMismatchError, match="2 of the 2 rows"):
        align_columns(source, table, policy="intersect")


def test_sample_numbers_come_before_row_order() -> None:
    """One row for each sample, in another order: the entry of the sample, not of the place."""
    index = RowIndex(sample=np.arange(10)[::-1], token=np.full(10, -1, dtype=np.int32))
    source = as_source(np.zeros((10, 2)), name="latents")
    source = replace(source, index=index, has_sample_numbers=True, identity="sample numbers")
    aligned = align_columns(source, open_columns(TABLE))
    assert aligned.columns["x"].tolist() == TABLE["x"][::-1].tolist()


def test_a_table_with_an_entry_for_every_token_is_taken_by_row() -> None:
    samples = np.repeat(np.arange(5), 2)
    index = RowIndex(sample=samples, token=np.tile([0, 1], 5).astype(np.int32))
    source = as_source(np.zeros((10, 2)), name="tokens")
    source = replace(source, index=index, has_sample_numbers=True, identity="sample numbers")
    aligned = align_columns(source, open_columns(TABLE))
    assert aligned.columns["x"].tolist() == TABLE["x"].tolist()
    assert "row order" in aligned.notes[0]


def test_all_tokens_of_a_sample_take_the_entry_of_its_id() -> None:
    index = RowIndex(
        sample=np.array([0, 0, 1]),
        token=np.array([0, 1, 0], dtype=np.int32),
        ids=np.array([b"b", b"b", b"a"]),
    )
    source = replace(as_source(np.zeros((3, 2)), name="tokens"), index=index, identity="ids")
    aligned = align_columns(source, open_columns({"id": ["a", "b"], "x": [1.0, 2.0]}))
    assert aligned.columns["x"].tolist() == [2.0, 2.0, 1.0]


def test_the_built_in_digits_bring_their_factors() -> None:
    ids = [str(number) for number in (5, 3)]
    aligned = align_columns(as_source(np.zeros((2, 2)), ids=ids), open_columns("builtin:digits"))
    assert aligned.columns["digit"].tolist() == [5, 3]


@pytest.mark.parametrize(
    ("dataset", "is_told"),
    [
        ({"format": "builtin", "name": "digits"}, False),
        ({"format": "text by paragraph", "name": "shakespeare.txt"}, True),
        (None, False),
    ],
)
def test_factors_of_the_digits_beside_rows_of_other_data_are_told(
    dataset: dict | None, is_told: bool
) -> None:
    """Both call their samples 0, 1, 2, …, so that a join by ids finds all of them."""
    rows = as_source(np.zeros((2, 2)), ids=["0", "1"], name="a.h5")
    source = replace(rows, info={} if dataset is None else {"spec": {"dataset": dataset}})
    notes = align_columns(source, open_columns("builtin:digits")).notes
    told = [
        note for note in notes if "a.h5 was extracted from shakespeare.txt, and builtin" in note
    ]
    assert len(told) == is_told


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_a_table_of_few_bytes_does_not_fill_the_memory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"bomb.{kind}"
    n_rows = 2**22
    if kind == "npz":
        np.savez_compressed(path, label=np.zeros(8 * n_rows, np.int8))
    else:
        pytest.importorskip("pyarrow")
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame({"label": np.zeros(n_rows, np.int8)}).to_parquet(path)
    assert path.stat().st_size < 2**17
    with allowing("16M"), pytest.raises(InputError, match=r"bomb.* 33554432 bytes"):
        open_columns(path)
    with allowing("64M"):
        assert open_columns(path).n_rows >= n_rows


def test_a_table_of_a_million_columns_is_refused_at_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("x," * 10**6 + "x\n1\n")
    with pytest.raises(InputError, match=r"wide\.csv: .*1000001 columns; .* 32768 "):
        open_columns(tmp_path / "wide.csv")
    np.savez(tmp_path / "wide.npz", f=np.zeros((1, 10**5)))
    with pytest.raises(InputError, match=r"wide\.npz: .*100000 columns; .* 32768 "):
        open_columns(tmp_path / "wide.npz")


def test_a_frame_is_a_table_whose_index_gives_the_ids() -> None:
    names = [f"row {number}" for number in range(4)]
    frame = pd.DataFrame({"shape": [0, 1, 2, 3], "colour": list("abca")}, index=names)
    source = as_source(np.eye(4), ids=names[::-1])
    aligned = align_columns(source, open_columns(frame))
    assert aligned.columns["shape"].tolist() == [3, 2, 1, 0]
    assert aligned.columns["colour"].tolist() == list("acba")
    by_column = frame.rename_axis("id").reset_index().set_index(pd.Index([7, 8, 9, 10]))
    again = align_columns(source, open_columns(by_column))
    assert again.columns["shape"].tolist() == [3, 2, 1, 0]
    plain = open_columns(frame.reset_index(drop=True))
    assert plain.ids is None
    assert align_columns(as_source(np.eye(4)), plain).columns["shape"].tolist() == [0, 1, 2, 3]
