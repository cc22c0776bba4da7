"""What every foreign format keeps to; one that is added to the list comes under these tests."""

import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import torch
from safetensors.numpy import save_file

from repalign.exceptions import InputError, RepalignError
from repalign.store.formats.formats import BY_SUFFIX
from repalign.store.open import open_embeddings

DOCS = Path(__file__).parents[3] / "docs" / "embeddings.md"


def save_parquet(path: Path, values: np.ndarray) -> None:
    pytest.importorskip("pyarrow")
    pd.DataFrame({"emb": list(values)}).to_parquet(path)


def save_hdf5(path: Path, values: np.ndarray, name: str) -> None:
    with h5py.File(path, "w") as file:
        file[name] = values


SAVE: dict[str, Callable[[Path, np.ndarray], object]] = {
    ".npy": np.save,
    ".npz": lambda path, values: np.savez(path, emb=values),
    ".pt": lambda path, values: torch.save(torch.from_numpy(values), path),
    ".pth": lambda path, values: torch.save({"emb": torch.from_numpy(values)}, path),
    ".safetensors": lambda path, values: save_file({"emb": values}, path),
    ".parquet": save_parquet,
    ".csv": lambda path, values: np.savetxt(path, values, delimiter=","),
    ".tsv": lambda path, values: np.savetxt(path, values, delimiter="\t"),
    ".txt": np.savetxt,
    ".mat": lambda path, values: scipy.io.savemat(path, {"emb": values}),
    ".h5ad": lambda path, values: save_hdf5(path, values, "X"),
    ".h5": lambda path, values: save_hdf5(path, values, "emb"),
    ".hdf5": lambda path, values: save_hdf5(path, values, "emb"),
}
every_suffix = pytest.mark.parametrize("suffix", BY_SUFFIX)


def test_every_format_is_tested_and_listed() -> None:
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("|")]
    assert SAVE.keys() == BY_SUFFIX.keys()
    for suffix in BY_SUFFIX:
        assert any(f"`{suffix}`" in row.split("|")[1] for row in rows), suffix


@every_suffix
def test_the_values_come_back(tmp_path: Path, values: np.ndarray, suffix: str) -> None:
    SAVE[suffix](tmp_path / f"a{suffix}", values)

    source = open_embeddings(tmp_path / f"a{suffix}")

    np.testing.assert_array_equal(source.rows.read(0, 50).astype(np.float32), values)
    np.testing.assert_array_equal(
        source.rows.take(np.array([3, 4, 49])).astype(np.float32), values[[3, 4, 49]]
    )
    assert source.rows.read(7, 7).shape == (0, 4)


@every_suffix
def test_other_views_pipes_and_scraps_are_refused(
    tmp_path: Path, values: np.ndarray, suffix: str
) -> None:
    SAVE[suffix](tmp_path / f"a{suffix}", values)
    with pytest.raises(InputError, match="no view"):
        open_embeddings(tmp_path / f"a{suffix}", view="nothing")

    (tmp_path / f"b{suffix}").write_bytes(b"\x00\xff scrap")
    with pytest.raises(RepalignError, match=f"b{suffix}"):
        open_embeddings(tmp_path / f"b{suffix}")
    (tmp_path / f"c{suffix}").touch()
    with pytest.raises(RepalignError, match=f"c{suffix}"):
        open_embeddings(tmp_path / f"c{suffix}")
    os.mkfifo(tmp_path / f"d{suffix}")
    with pytest.raises(InputError, match="is a pipe"):
        open_embeddings(tmp_path / f"d{suffix}")
