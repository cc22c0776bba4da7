"""Zarr directories: arrays, groups, AnnData; what would run code is refused."""

import json
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repalign.exceptions import InputError
from repalign.store.open import open_embeddings

zarr = pytest.importorskip("zarr")
ROWS = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


@pytest.mark.parametrize("version", [2, 3])
def test_one_array_is_a_matrix_without_ids(tmp_path: Path, version: int) -> None:
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(50, 4), chunks=(16, 2), dtype="f4", zarr_format=version
    )
    array[:] = ROWS
    source = open_embeddings(tmp_path / "a.zarr")
    assert np.array_equal(source.rows.read(7, 40), ROWS[7:40])
    assert np.array_equal(source.rows.take(np.array([0, 17, 49])), ROWS[[0, 17, 49]])
    assert source.identity == "row order"
    with pytest.raises(InputError, match="no view"):
        open_embeddings(tmp_path / "a.zarr", view="other")


def test_a_group_has_views_and_ids(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    for name, values in (("deep/x", ROWS), ("y", ROWS[:, :2]), ("id", np.arange(50))):
        group.create_array(name, data=values)
    with pytest.raises(InputError, match="holds 2 arrays"):
        open_embeddings(tmp_path / "a.zarr")
    source = open_embeddings(tmp_path / "a.zarr", view="deep/x")
    assert np.array_equal(source.rows.read(0, 50), ROWS)
    assert source.index.ids is not None
    assert source.index.ids[49] == b"49"


def test_anndata_has_the_names_of_its_observations(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    names = [f"cell-{k}" for k in range(50)]
    made = anndata.AnnData(ROWS, pd.DataFrame(index=names), obsm={"X_pca": ROWS[:, :3].copy()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.write_zarr(tmp_path / "a.zarr")
    for view, width in (("X", 4), ("X_pca", 3)):
        source = open_embeddings(tmp_path / "a.zarr", view=view)
        assert np.array_equal(source.rows.read(0, 50), ROWS[:, :width])
        assert source.index.ids is not None
        assert source.index.ids[3] == b"cell-3"


@pytest.mark.parametrize("place", ["chunk", "array", "description"])
def test_nothing_outside_is_read_through_a_link(tmp_path: Path, place: str) -> None:
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    group.create_array("x", data=ROWS, chunks=ROWS.shape)
    name = {"chunk": "x/0.0", "array": "x", "description": "x/.zarray"}[place]
    (tmp_path / "a.zarr" / name).rename(tmp_path / "outside")
    (tmp_path / "a.zarr" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="link"):
        open_embeddings(tmp_path / "a.zarr")


def test_pipes_in_a_tree_are_refused_at_once(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    group.create_array("x", data=ROWS, chunks=ROWS.shape)
    (tmp_path / "a.zarr" / "x" / "0.0").unlink()
    os.mkfifo(tmp_path / "a.zarr" / "x" / "0.0")
    with pytest.raises(InputError, match="is a pipe"):
        open_embeddings(tmp_path / "a.zarr")


def test_damaged_chunks_are_refused_when_they_are_read(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    group.create_array("x", data=ROWS, chunks=ROWS.shape)
    (tmp_path / "a.zarr" / "x" / "0.0").write_bytes(b"scrap")
    source = open_embeddings(tmp_path / "a.zarr")
    with pytest.raises(InputError, match="damaged"):
        source.rows.read(0, 2)
    with pytest.raises(InputError, match="damaged"):
        source.rows.take(np.array([1]))


def test_chunks_and_ids_of_gigabytes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    for name, shape, kind in (("x", (10**9, 2), "f4"), ("ids", (10**9,), "S8")):
        place = tmp_path / f"{name}.zarr"
        group = zarr.open_group(str(place), mode="w", zarr_format=2)
        group.create_array("x", data=ROWS)
        group.create_array(name, shape=shape, chunks=shape, dtype=kind, overwrite=True)
        (place / name / ".".join("0" * len(shape))).write_bytes(b"little")
        with pytest.raises(InputError, match=rf"zarr::{name}: .*at most"):
            open_embeddings(place)


@pytest.mark.parametrize("name", ["x", "id"])
@pytest.mark.parametrize("version", [2, 3])
def test_chunk_files_that_are_missing_are_no_zeros(tmp_path: Path, name: str, version: int) -> None:
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=version)
    group.create_array("x", data=ROWS, chunks=(16, 4))
    group.create_array("id", data=np.arange(1, 51), chunks=(16,))
    assert np.array_equal(open_embeddings(tmp_path / "a.zarr").rows.read(0, 50), ROWS)
    files = [path for path in (tmp_path / "a.zarr" / name).rglob("[0-9]*") if path.is_file()]
    files[1].rename(files[1].with_name(f"copy of {files[1].name}"))
    with pytest.raises(InputError, match=f"a.zarr::{name}: .* incomplete"):
        open_embeddings(tmp_path / "a.zarr")


def test_shards_are_counted_as_wholes(tmp_path: Path) -> None:
    place = str(tmp_path / "a.zarr")
    array = zarr.create_array(place, shape=(50, 4), chunks=(4, 4), shards=(16, 4), dtype="f4")
    array[:] = ROWS
    assert np.array_equal(open_embeddings(tmp_path / "a.zarr").rows.read(0, 50), ROWS)
    (tmp_path / "a.zarr" / "c" / "3" / "0").unlink()
    with pytest.raises(InputError, match="incomplete"):
        open_embeddings(tmp_path / "a.zarr")


def test_more_chunks_than_can_be_looked_for_are_refused_at_once(tmp_path: Path) -> None:
    place = str(tmp_path / "a.zarr")
    zarr.create_array(place, shape=(10**6, 10**5), chunks=(1, 1), dtype="f4", zarr_format=2)
    with pytest.raises(InputError, match="incomplete"):
        open_embeddings(tmp_path / "a.zarr")


class Payload:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


@pytest.mark.parametrize("name", ["x", "ids"])
@pytest.mark.parametrize(
    "codecs",
    [
        {"filters": [{"id": "pickle"}]},
        {"filters": None, "compressor": {"id": "pickle"}},
        {"filters": [{"id": "delta", "dtype": "<f4"}, {"id": "pickle"}]},
        {"dtype": "|O", "filters": [{"id": "pickle"}]},
        {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle"}},
        {"dtype": "|O", "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}]},
    ],
)
def test_pickled_objects_are_never_loaded(tmp_path: Path, name: str, codecs: dict) -> None:
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    group.create_array("x", data=ROWS, compressors=None, chunks=ROWS.shape)
    group.create_array("ids", data=np.arange(1, 51), compressors=None, chunks=(50,))
    description = tmp_path / "a.zarr" / name / ".zarray"
    description.write_text(json.dumps(json.loads(description.read_text()) | codecs))
    chunk = tmp_path / "a.zarr" / name / ("0.0" if name == "x" else "0")
    chunk.write_bytes(pickle.dumps(Payload(f"touch {tmp_path / 'ran'}")))

    with pytest.raises(InputError, match=r"a\.zarr"):
        open_embeddings(tmp_path / "a.zarr").rows.read(0, 50)
    assert not (tmp_path / "ran").exists()


def test_a_damaged_description_is_refused(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    group.create_array("x", data=ROWS)
    (tmp_path / "a.zarr" / "x" / ".zarray").write_text("{")
    with pytest.raises(InputError, match="readable zarr"):
        open_embeddings(tmp_path / "a.zarr")
