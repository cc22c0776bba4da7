"""Locators, fingerprints and arrays in memory as sources."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from repalign.exceptions import InputError
from repalign.rows import ArrayRows
from repalign.store.exchange import export_store, import_store
from repalign.store.index import RowIndex, pooled_index
from repalign.store.matching import join_sources
from repalign.store.open import as_source, check_is_store, open_embeddings
from repalign.store.reader import open_store
from repalign.store.source import parse_locator, row_blocks
from repalign.store.writer import write_store
from tests.shards import SmallShards

VALUES = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
NAMES = [f"cat-{row}" for row in range(6)]


@pytest.mark.parametrize(
    ("text", "path", "view"),
    [
        ("runs/a.h5", "runs/a.h5", None),
        ("runs/a.h5::block11", "runs/a.h5", "block11"),
        ("a::b.h5::v", "a::b.h5", "v"),
        ("a.h5ad::obsm/X_pca", "a.h5ad", "obsm/X_pca"),
    ],
)
def test_locators_split_at_the_last_mark(text: str, path: str, view: str | None) -> None:
    locator = parse_locator(text)

    assert (locator.path, locator.view) == (Path(path), view)


def test_an_existing_path_is_taken_whole(tmp_path: Path) -> None:
    (tmp_path / "a::b.npy").touch()

    assert parse_locator(f"{tmp_path}/a::b.npy").view is None
    assert parse_locator(tmp_path / "c::d").path == tmp_path / "c::d"


@pytest.mark.parametrize("text", ["::view", "a.h5::"])
def test_half_a_locator_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="path::view"):
        parse_locator(text)


def test_two_views_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="view='y'"):
        open_embeddings("a.npz::x", view="y")


def test_missing_and_unknown_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a.npy: .*no such"):
        open_embeddings(tmp_path / "a.npy")
    for url in ("s3://bucket/a.h5", "memory://a.npy", "file:///data/a.h5"):
        for opened in (open_embeddings, lambda text: check_is_store(Path(text))):
            with pytest.raises(InputError, match=r":/.*a\.\w+: .*URL"):
                opened(url)
    (tmp_path / "s3:").mkdir()
    with pytest.raises(InputError, match=r"s3:/a.npy: .*no such"):
        open_embeddings(tmp_path / "s3:" / "a.npy")
    (tmp_path / "a.xyz").touch()
    with pytest.raises(InputError, match=r"a.xyz: .*suffix; .*\.npy, \.npz"):
        open_embeddings(tmp_path / "a.xyz")


def test_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.npy")

    with pytest.raises(InputError, match=r"a.npy: .*pipe"):
        open_embeddings(tmp_path / "a.npy")


def test_arrays_tensors_frames_and_lists_are_sources() -> None:
    for values in (VALUES, torch.from_numpy(VALUES), pd.DataFrame(VALUES), VALUES.tolist()):
        source = as_source(values, name="mine")

        np.testing.assert_array_equal(source.rows.read(0, 6), VALUES)
        assert (source.name, source.identity, source.path) == ("mine", "row order", None)


def test_open_stores_and_rows_are_sources_and_bare_views_are_not(tmp_path: Path) -> None:
    write_store(tmp_path / "a.h5", VALUES, index=pooled_index(6, ids=NAMES))
    with open_store(tmp_path / "a.h5") as store:
        assert as_source(store).index.ids[5] == b"cat-5"
        with pytest.raises(InputError, match=r"mine: .*identity"):
            as_source(store.view(), name="mine")
    np.testing.assert_array_equal(as_source(ArrayRows(VALUES)).rows.read(1, 3), VALUES[1:3])


def test_tensors_with_gradients_and_bfloat16_are_sources() -> None:
    tensor = torch.from_numpy(VALUES).bfloat16().requires_grad_()

    rows = as_source(tensor).rows

    np.testing.assert_array_equal(rows.read(0, 6), tensor.detach().float().numpy())


def test_the_index_of_a_frame_gives_ids() -> None:
    frame = pd.DataFrame(VALUES, index=NAMES)

    assert as_source(frame).index.ids[1] == b"cat-1"
    assert as_source(frame, ids=[f"dog-{row}" for row in range(6)]).index.ids[1] == b"cat-1"
    assert as_source(frame.sort_index(ascending=False)).index.ids[0] == b"cat-5"


def test_a_frame_is_read_by_the_rules_of_tables() -> None:
    frame = pd.DataFrame(VALUES, columns=["a", "b", "c"]).assign(
        id=NAMES, label=1, Metadata_n=2, well="B02", is_control=True
    )

    source = as_source(frame, leave_out=["label"])

    np.testing.assert_array_equal(source.rows.read(0, 6), VALUES)
    assert (source.columns, source.index.ids[5]) == (("a", "b", "c"), b"cat-5")
    assert source.info["left_out"] == ["label", "Metadata_n", "well", "is_control"]


def test_sources_and_paths_are_passed_on(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    source = as_source(tmp_path / "a.npy", ids=NAMES)

    assert as_source(source) is source
    assert as_source(source, ids=NAMES[::-1]) is source
    assert source.index.ids[2] == b"cat-2"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0], [2.0, 3.0]], "matrix of numbers .*give rows of one length"),
        ([1.0, 2.0], r"has shape \(2,\), one value per row"),
        (np.array([["a"]]), "has values of type <U1"),
        (np.array([[None]]), "holds Python objects"),
        (pd.DataFrame({"x": ["a"]}), "has no column of numbers"),
        (pd.DataFrame({"x": [1.0, 2.0, "a"]}), "the column 'x' .*'a' in row 2"),
        (pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]), "two columns 'x'"),
        (
            pd.DataFrame(VALUES, index=pd.MultiIndex.from_arrays([NAMES, NAMES])),
            "has an index of several levels; give one id per row",
        ),
        (pd.DataFrame(VALUES, index=np.linspace(0, 1, 6)), "ids are float64"),
        (torch.zeros(2, 2).to_sparse(), "is a sparse tensor"),
    ],
)
def test_objects_that_are_no_embeddings_are_refused(values: object, message: str) -> None:
    with pytest.raises(InputError, match=f"mine.*{message}"):
        as_source(values, name="mine")


def test_wrong_numbers_of_ids_and_nan_are_refused() -> None:
    with pytest.raises(InputError, match=r"mine: .*6 rows .*2 ids"):
        as_source(VALUES, ids=["a", "b"], name="mine")
    with pytest.raises(InputError, match=r"mine: row 0 .*nan"):
        as_source([[np.nan]], name="mine").rows.read(0, 1)


def test_equal_content_has_one_fingerprint_whatever_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    np.savez_compressed(tmp_path / "a.npz", emb=np.asfortranarray(VALUES))
    big_endian = VALUES.astype(">f4")

    prints = {
        as_source(VALUES).fingerprint,
        as_source(big_endian).fingerprint,
        open_embeddings(tmp_path / "a.npy").fingerprint,
        open_embeddings(tmp_path / "a.npz").fingerprint,
    }

    assert len(prints) == 1


@pytest.mark.parametrize("ids", [None, NAMES])
def test_equal_content_has_one_fingerprint_in_stores_too(
    tmp_path: Path, ids: list[str] | None
) -> None:
    source = as_source(VALUES, ids=ids)
    import_store(source, tmp_path / "a.h5", view="one")
    import_store(source, tmp_path / "b", view="another")
    for name in ("a.csv", "a.npz", "a.npy"):
        export_store(open_embeddings(tmp_path / "a.h5"), tmp_path / name)

    prints = {
        open_embeddings(tmp_path / name).fingerprint for name in ("a.h5", "b", "a.npz", "a.npy")
    }

    assert prints == {source.fingerprint}
    # text is read in double precision: other values, even if they are equal
    assert open_embeddings(tmp_path / "a.csv").fingerprint != source.fingerprint


def test_shards_of_any_size_have_the_fingerprint_of_the_whole(tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal((300, 2000)).astype(np.float32)
    index = RowIndex(np.arange(300)[::-1], np.arange(300) % 3)
    prints = set()
    for shard_rows in (128, 100, 300):
        options = SmallShards(shard_rows=shard_rows)
        where = tmp_path / f"run{shard_rows}"
        write_store(where, values, index=index, options=options)
        source = open_embeddings(where)
        # known from the digests where shards end with whole leaves, else all values must be read
        assert (source.known_fingerprint is None) == (shard_rows == 100)
        prints |= {source.fingerprint, replace(source, known_fingerprint=None).fingerprint}

    assert len(prints) == 1


def test_values_order_ids_and_type_change_the_fingerprint() -> None:
    changed = VALUES.copy()
    changed[3, 1] += 1e-6

    prints = {
        as_source(VALUES).fingerprint,
        as_source(changed).fingerprint,
        as_source(VALUES[::-1]).fingerprint,
        as_source(VALUES, ids=NAMES).fingerprint,
        as_source(VALUES.astype(np.float64)).fingerprint,
        as_source(VALUES.reshape(3, 6)).fingerprint,
    }

    assert len(prints) == 6


def test_blocks_cover_all_rows_once() -> None:
    blocks = list(row_blocks(as_source(VALUES).rows, block_bytes=2 * 3 * 4))

    assert [start for start, _ in blocks] == [0, 2, 4]
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), VALUES)


def test_a_frame_and_a_file_join_on_ids(tmp_path: Path) -> None:
    shuffled = np.random.default_rng(1).permutation(6)
    np.savez(tmp_path / "a.npz", emb=VALUES[shuffled], ids=np.array(NAMES)[shuffled])

    join = join_sources(
        [as_source(pd.DataFrame(VALUES, index=NAMES)), open_embeddings(tmp_path / "a.npz")]
    )

    np.testing.assert_array_equal(join.target.read(0, 6), VALUES)
    assert join.report.matched_by == "ids"


def test_masked_values_are_refused_and_not_used() -> None:
    hidden = np.ma.masked_values(VALUES, VALUES[4, 1])
    message = r"row 4 .*masked .*\(1 "

    with pytest.raises(InputError, match=message):
        as_source(hidden)
    with pytest.raises(InputError, match=message):
        as_source(list(hidden))
    with pytest.raises(InputError, match=message):
        write_store("never.h5", hidden)
    np.testing.assert_array_equal(as_source(np.ma.array(VALUES)).rows.read(0, 6), VALUES)


def test_ids_of_half_a_surrogate_pair_are_refused() -> None:
    with pytest.raises(InputError, match="surrogate"):
        as_source(VALUES, ids=["a", "b", "c", "d", "\ud800", "f"])


def test_meta_tensors_are_refused(tmp_path: Path) -> None:
    torch.save(torch.empty(6, 3, device="meta"), tmp_path / "a.pt")

    for values in (torch.empty(6, 3, device="meta"), tmp_path / "a.pt"):
        with pytest.raises(InputError, match="meta tensor"):
            as_source(values)


def test_a_dictionary_of_arrays_is_no_matrix() -> None:
    with pytest.raises(InputError, match="dictionary"):
        as_source({"final": np.eye(3)})
