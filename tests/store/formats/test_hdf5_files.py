"""Foreign HDF5 and AnnData files: dense matrices are read, everything that leads outside is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from repalign.exceptions import InputError
from repalign.store.open import open_embeddings


def test_a_dataset_round_trip_with_ids(
    tmp_path: Path, values: np.ndarray, names: list[str]
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("deep/emb", data=values, chunks=(8, 2), compression="gzip")
        file["ids"] = names

    source = open_embeddings(tmp_path / "a.h5")

    np.testing.assert_array_equal(source.rows.read(7, 30), values[7:30])
    np.testing.assert_array_equal(source.rows.take(np.array([0, 3, 8, 49])), values[[0, 3, 8, 49]])
    assert source.rows.take(np.array([], dtype=np.int64)).shape == (0, 4)
    assert (source.view, source.index.ids[5], source.chunk_rows) == ("deep/emb", b"cat-5", 8)


def test_several_datasets_ask_which_and_labels_are_no_matrix(
    tmp_path: Path, values: np.ndarray
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one"], file["two"], file["label"] = values, values[:, :2], np.arange(50)

    with pytest.raises(InputError, match=r"2 arrays, .*one \(50 × 4\).*two \(50 × 2\)"):
        open_embeddings(tmp_path / "a.h5")
    source = open_embeddings(tmp_path / "a.h5", view="two", id_column="label")
    assert source.index.ids[3] == b"3"
    with pytest.raises(InputError, match=r"dataset 'key'.* label, one, two"):
        open_embeddings(tmp_path / "a.h5", id_column="key")
    with pytest.raises(InputError, match=r"a.h5::two: .*float32.* \(50, 2\)"):
        open_embeddings(tmp_path / "a.h5", view="one", id_column="two")


def external_link(file: Any, secret: Path) -> None:
    file["emb"] = h5py.ExternalLink(str(secret), "emb")


def soft_link(file: Any, secret: Path) -> None:
    file["inside"] = np.zeros((2, 2))
    file["emb"] = h5py.SoftLink("/inside")


def external_group(file: Any, secret: Path) -> None:
    file["group"] = h5py.ExternalLink(str(secret), "/")


def external_storage(file: Any, secret: Path) -> None:
    file.create_dataset("emb", (2, 2), "f4", external=[(str(secret), 0, 16)])


def virtual_dataset(file: Any, secret: Path) -> None:
    layout = h5py.VirtualLayout((2, 2), "f4")
    layout[:] = h5py.VirtualSource(str(secret), "emb", (2, 2))
    file.create_virtual_dataset("emb", layout)


def declared_only(file: Any, secret: Path) -> None:
    file.create_dataset("emb", (2**39, 2**10), "f4", chunks=(256, 1024))


def declared_and_packed(file: Any, secret: Path) -> None:
    data = file.create_dataset("emb", (2**39, 2**10), "f4", chunks=(256, 1024), compression="gzip")
    data[:256] = 0


def one_chunk(file: Any, n_rows: int, stored_bytes: int) -> None:
    chunks, most = (2**20, 2**10), (None, None)
    shape = (n_rows, 2**10)
    data = file.create_dataset("emb", shape, "f4", chunks=chunks, compression="gzip", maxshape=most)
    data.id.write_direct_chunk((0, 0), b"x" * stored_bytes)


def bomb(file: Any, secret: Path) -> None:
    one_chunk(file, 2**20, 2**23)


def chunk_beyond_the_rows(file: Any, secret: Path) -> None:
    one_chunk(file, 1, 2**23)


def unknown_filter(file: Any, secret: Path) -> None:
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((2, 2))
    properties.set_filter(32_099, h5py.h5z.FLAG_OPTIONAL, (1,))
    space = h5py.h5s.create_simple((2, 2))
    data = h5py.h5d.create(file.id, b"emb", h5py.h5t.IEEE_F32LE, space, properties)
    h5py.Dataset(data)[...] = 1


HOSTILE: list[tuple[Callable[[Any, Path], None], str]] = [
    (external_link, "a.h5::emb: is a soft or external link, which is not followed"),
    (soft_link, "a.h5::emb: is a soft or external link"),
    (external_group, "a.h5::group: is a soft or external link"),
    (external_storage, "external storage"),
    (virtual_dataset, "virtual dataset"),
    (declared_only, "incomplete"),
    (declared_and_packed, "incomplete"),
    (bomb, "8388608 bytes expand to 4294967296 bytes, at most"),
    (chunk_beyond_the_rows, "8388608 bytes expand to 4294967296 bytes, at most"),
    (unknown_filter, "is compressed with the filter number 32099, which is not available"),
]


@pytest.mark.parametrize(
    ("write", "message"), HOSTILE, ids=lambda case: getattr(case, "__name__", "")
)
def test_what_leads_outside_or_claims_too_much_is_refused(
    tmp_path: Path, write: Callable[[Any, Path], None], message: str
) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["emb"] = np.ones((2, 2), np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        write(file, tmp_path / "secret.h5")

    with pytest.raises(InputError, match=message):
        open_embeddings(tmp_path / "a.h5")


def test_a_group_inside_itself_is_read_once(tmp_path: Path, values: np.ndarray) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("group")
        group["again"], group["emb"] = group, values

    assert open_embeddings(tmp_path / "a.h5").view == "group/emb"


def test_damaged_files_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file["emb"] = values
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:100], whole[:-100]):
        path.write_bytes(content)

        with pytest.raises(InputError, match="cannot read"):
            open_embeddings(path)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_chunks_that_were_never_written_are_no_zeros(
    tmp_path: Path, values: np.ndarray, compression: str | None
) -> None:
    for name, n_written in (("cut", 24), ("empty", 0), ("whole", 50)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            data = file.create_dataset("emb", (50, 4), "f4", chunks=(8, 4), compression=compression)
            data[:n_written] = values[:n_written]

    for name in ("cut", "empty"):
        with pytest.raises(InputError, match=f"{name}.h5::emb: .* incomplete"):
            open_embeddings(tmp_path / f"{name}.h5")
    np.testing.assert_array_equal(open_embeddings(tmp_path / "whole.h5").rows.read(0, 50), values)


def test_a_damaged_index_of_chunks_is_refused(tmp_path: Path, values: np.ndarray) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("emb", data=values, chunks=(8, 4), compression="gzip")
    content = path.read_bytes()
    index = content.rindex(b"TREE")  # without a checksum, in the oldest format
    path.write_bytes(content[:index] + b"TREF" + content[index + 4 :])

    with pytest.raises(InputError, match="cannot read"):
        open_embeddings(path)


def test_a_flipped_bit_in_a_checked_chunk_is_noticed(tmp_path: Path, values: np.ndarray) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("emb", data=values, chunks=(50, 4), fletcher32=True)
        offset = data.id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[offset + 5] ^= 1
    path.write_bytes(bytes(content))

    with pytest.raises(InputError, match=r"a.h5::emb: .*cannot read"):
        open_embeddings(path).rows.read(0, 50)


def annotated(values: np.ndarray, names: list[str], **parts: Any) -> anndata.AnnData:
    observations = pd.DataFrame(
        {"plate": pd.Categorical([f"p{row % 3}-{row}" for row in range(50)]), "well": range(50)},
        index=names,
    )
    return anndata.AnnData(obs=observations, **parts)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_anndata_round_trip(
    tmp_path: Path, values: np.ndarray, names: list[str], compression: str | None
) -> None:
    annotated(values, names, X=values).write_h5ad(tmp_path / "a.h5ad", compression=compression)

    source = open_embeddings(tmp_path / "a.h5ad")

    np.testing.assert_array_equal(source.rows.read(0, 50), values)
    assert (source.view, source.index.ids[30]) == ("X", b"cat-30")


def test_anndata_matrices_are_views(tmp_path: Path, values: np.ndarray, names: list[str]) -> None:
    parts = {"X": values, "obsm": {"X_pca": values[:, :2]}, "layers": {"raw": values + 1}}
    annotated(values, names, **parts).write_h5ad(tmp_path / "a.h5ad")

    with pytest.raises(InputError, match=r"3 arrays, X \(50 × 4\), .*obsm/X_pca \(50 × 2\)"):
        open_embeddings(tmp_path / "a.h5ad")
    for view in ("X_pca", "obsm/X_pca"):
        source = open_embeddings(tmp_path / "a.h5ad", view=view)
        np.testing.assert_array_equal(source.rows.read(0, 50), values[:, :2])
        assert source.view == "obsm/X_pca"


def test_anndata_ids_from_another_column(
    tmp_path: Path, values: np.ndarray, names: list[str]
) -> None:
    path = tmp_path / "a.h5ad"
    annotated(values, names, X=values).write_h5ad(path)

    assert open_embeddings(path, id_column="plate").index.ids[4] == b"p1-4"
    assert open_embeddings(path, id_column="well").index.ids[4] == b"4"
    with pytest.raises(InputError, match=r"obs: .*'x'.* _index, plate, well"):
        open_embeddings(path, id_column="x")


def test_anndata_without_a_value_in_the_column_of_ids_is_refused(
    tmp_path: Path, values: np.ndarray, names: list[str]
) -> None:
    data = annotated(values, names, X=values)
    data.obs["gap"] = pd.Categorical(["a"] * 49 + [None])
    data.obs["weight"] = np.linspace(0, 1, 50)
    data.obs["flag"] = pd.array([True, None] * 25, dtype="boolean")
    data.write_h5ad(tmp_path / "a.h5ad")

    with pytest.raises(InputError, match="obs/gap: row 49 "):
        open_embeddings(tmp_path / "a.h5ad", id_column="gap")
    with pytest.raises(InputError, match=r"obs/weight: .*float64"):
        open_embeddings(tmp_path / "a.h5ad", id_column="weight")
    with pytest.raises(InputError, match=r"obs/flag: .*text"):
        open_embeddings(tmp_path / "a.h5ad", id_column="flag")


def test_sparse_anndata_is_refused(tmp_path: Path, values: np.ndarray, names: list[str]) -> None:
    annotated(values, names, X=scipy.sparse.csr_matrix(values)).write_h5ad(tmp_path / "a.h5ad")

    with pytest.raises(InputError, match=r"a.h5ad::X: .*sparse"):
        open_embeddings(tmp_path / "a.h5ad", view="X")
    with pytest.raises(InputError, match="no array"):
        open_embeddings(tmp_path / "a.h5ad")


def test_anndata_links_are_not_followed(
    tmp_path: Path, values: np.ndarray, names: list[str]
) -> None:
    annotated(values, names, X=values).write_h5ad(tmp_path / "secret.h5ad")
    for place in ("X", "obs", "obsm/x"):
        with h5py.File(tmp_path / "a.h5ad", "w") as file:
            if place == "obs":
                file["X"] = values
            file[place] = h5py.ExternalLink(str(tmp_path / "secret.h5ad"), place)

        with pytest.raises(InputError, match=f"{place}: .*link"):
            open_embeddings(tmp_path / "a.h5ad")


def test_anndata_of_the_first_layout_is_refused(tmp_path: Path, values: np.ndarray) -> None:
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["X"], file["obs"] = values, np.zeros(50, dtype=[("index", "S5")])

    with pytest.raises(InputError, match=r"AnnData .*0\.7"):
        open_embeddings(tmp_path / "a.h5ad")


def test_anndata_without_names_is_in_row_order(tmp_path: Path, values: np.ndarray) -> None:
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["X"] = values

    assert open_embeddings(tmp_path / "a.h5ad").identity == "row order"


def test_damaged_texts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file["emb"], file["ids"] = np.zeros((40, 2)), [f"r{row}" for row in range(40)]
    path.write_bytes(path.read_bytes().replace(b"GCOL", b"LOCG"))

    with pytest.raises(InputError, match=r"a.hdf5::ids: .*heap"):
        open_embeddings(path)


def test_ids_that_are_declared_only_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["emb"] = np.zeros((2, 2))
        file.create_dataset("ids", (2**40,), h5py.string_dtype(), chunks=(1024,))

    with pytest.raises(InputError, match=r"a.hdf5::ids: .*at most"):
        open_embeddings(tmp_path / "a.hdf5")


def test_ids_of_fixed_length_and_empty_attributes(tmp_path: Path, values: np.ndarray) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["emb"], file["ids"] = values[:2], np.array([b"a", b"bc"])
    with h5py.File(tmp_path / "b.h5ad", "w") as file:
        file["X"] = values[:2]
        file.create_group("obs").attrs["_index"] = 7

    assert open_embeddings(tmp_path / "a.hdf5").index.ids.tolist() == [b"a", b"bc"]
    assert open_embeddings(tmp_path / "b.h5ad").identity == "row order"
