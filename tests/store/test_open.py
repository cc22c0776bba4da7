"""Stores opened as sources: views, identity, joins without loading them."""

from pathlib import Path

import numpy as np
import pytest

from repalign.exceptions import InputError, RowMismatchError, StoreError
from repalign.store.index import RowIndex, encode_ids
from repalign.store.matching import join_sources
from repalign.store.open import is_store, open_embeddings
from repalign.store.writer import StoreWriter, write_store
from tests.shards import SmallShards

N_ROWS = 40_000
VALUES = np.random.default_rng(0).standard_normal((N_ROWS, 8)).astype(np.float32)
SHAS = np.random.default_rng(1).integers(0, 256, (N_ROWS, 16), dtype=np.uint8)


def save(path: Path, order: np.ndarray, *, ids: bool = True) -> Path:
    """Write the rows in an order, each with the id and hash of its input."""
    index = RowIndex(
        sample=order,
        token=np.full(len(order), -1),
        sample_sha=SHAS[order],
        ids=encode_ids(f"cat-{row}" for row in order.tolist()) if ids else None,
    )
    write_store(path, {"final": VALUES[order]}, index=index)
    return path


def test_a_view_is_read_lazily_with_its_identity(tmp_path: Path) -> None:
    source = open_embeddings(save(tmp_path / "a.h5", np.arange(100)))

    np.testing.assert_array_equal(source.rows.read(7, 20), VALUES[7:20])
    assert (source.view, source.identity, source.dim) == ("final", "ids", 8)
    assert source.chunk_rows == 4096
    assert source.info["layout"] == "repalign store"


def test_several_views_ask_which(tmp_path: Path) -> None:
    write_store(tmp_path / "a.h5", {"deep": VALUES[:9], "wide": VALUES[:9, :3]})

    with pytest.raises(InputError, match=r"views deep, wide; .*a.h5::deep"):
        open_embeddings(tmp_path / "a.h5")
    assert open_embeddings(f"{tmp_path}/a.h5::wide").dim == 3
    with pytest.raises(InputError, match=r"view 'x'.* deep, wide"):
        open_embeddings(tmp_path / "a.h5", view="x")


def test_directories_of_shards_are_stores(tmp_path: Path) -> None:
    save(tmp_path / "run", np.arange(50))

    source = open_embeddings(tmp_path / "run")

    np.testing.assert_array_equal(source.rows.read(0, 50), VALUES[:50])


def test_an_unfinished_store_is_refused(tmp_path: Path) -> None:
    options = SmallShards(shard_rows=5)
    writer = StoreWriter(tmp_path / "run", spec={}, views={"final": 8}, options=options)
    writer.append({"final": VALUES[:10]})
    writer.close()

    with pytest.raises(StoreError, match=r"run"):
        open_embeddings(tmp_path / "run")


def test_a_store_takes_no_other_ids(tmp_path: Path) -> None:
    path = save(tmp_path / "a.h5", np.arange(5))

    for option in ({"ids": ["a"] * 5}, {"id_column": "x"}):
        with pytest.raises(InputError, match="identity"):
            open_embeddings(path, **option)


def test_stores_and_foreign_files_are_told_apart_by_content(tmp_path: Path) -> None:
    save(tmp_path / "a.h5", np.arange(5)).rename(tmp_path / "a.dat")
    np.save(tmp_path / "b.npy", VALUES[:5])

    assert is_store(tmp_path / "a.dat")
    assert not is_store(tmp_path / "b.npy")
    assert open_embeddings(tmp_path / "a.dat").n_rows == 5


def test_shuffled_stores_are_joined_through_a_copy(tmp_path: Path) -> None:
    order = np.random.default_rng(2).permutation(N_ROWS)
    source = open_embeddings(save(tmp_path / "a.h5", np.arange(N_ROWS)))
    target = open_embeddings(save(tmp_path / "b.h5", order))

    join = join_sources([source, target])

    assert join.report.access == ("in order", "reordered copy")
    assert join.report.matched_by == "ids and hashes"
    for start in range(0, N_ROWS, 9973):
        stop = min(start + 9973, N_ROWS)
        np.testing.assert_array_equal(join.source.read(start, stop), VALUES[start:stop])
        np.testing.assert_array_equal(join.target.read(start, stop), VALUES[start:stop])


def test_subsets_without_ids_are_joined_in_order(tmp_path: Path) -> None:
    source = open_embeddings(save(tmp_path / "a.h5", np.arange(0, 900, 2), ids=False))
    target = open_embeddings(save(tmp_path / "b.h5", np.arange(0, 900, 3), ids=False))

    with pytest.raises(RowMismatchError, match=r"b.h5 .*150 of its 300 .*\(sample 3, s"):
        join_sources([source, target])
    join = join_sources([source, target], policy="intersect")

    assert join.report.access == ("in order", "in order")
    assert join.report.matched_by == "sample numbers and hashes"
    np.testing.assert_array_equal(join.source.read(0, 150), VALUES[0:900:6])
    np.testing.assert_array_equal(join.target.read(0, 150), VALUES[0:900:6])


def test_numbers_that_only_count_the_rows_are_no_identity(tmp_path: Path) -> None:
    write_store(tmp_path / "a.h5", VALUES[:9])
    picked = RowIndex(np.arange(3, 12), np.full(9, -1))
    write_store(tmp_path / "b.h5", VALUES[3:12], index=picked)

    assert open_embeddings(tmp_path / "a.h5").identity == "row order"
    assert open_embeddings(tmp_path / "b.h5").identity == "sample numbers"


@pytest.mark.parametrize(
    ("rows", "changed", "message"),
    [
        (
            [0, 1, 2, 4, 5],
            None,
            r"a.h5 .*1 of its 6 .*\('cat-3'\); .*b.h5 .*none",
        ),
        ([5, 4, 3, 2, 1, 0], 3, r"hashes .*\('cat-3'\)"),
        (
            [0, 1, 2, 3, 3, 4, 5],
            None,
            r"b.h5: .*repeated .*\('cat-3'\)",
        ),
    ],
    ids=["missing", "changed", "doubled"],
)
def test_one_row_missing_changed_or_doubled_is_refused_by_id(
    tmp_path: Path, rows: list[int], changed: int | None, message: str
) -> None:
    order = np.array(rows)
    shas = SHAS[order]
    if changed is not None:
        shas[rows.index(changed), 15] ^= 128
    ids = encode_ids(f"cat-{row}" for row in rows)
    index = RowIndex(order, np.full(len(rows), -1), shas, ids)
    write_store(tmp_path / "b.h5", {"final": VALUES[order]}, index=index)
    source = open_embeddings(save(tmp_path / "a.h5", np.arange(6)))

    with pytest.raises(RowMismatchError, match=message):
        join_sources([source, open_embeddings(tmp_path / "b.h5")])
