"""Directories of the thingsvision layout."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from repalign.exceptions import InputError
from repalign.store.open import open_embeddings


def save_hdf5(path: Path, values: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=values)


SAVERS: dict[str, Callable[[Path, np.ndarray], object]] = {
    "npy": np.save,
    "pt": lambda path, values: torch.save(torch.from_numpy(values), path),
    "mat": lambda path, values: scipy.io.savemat(path, {"features": values}),
    "hdf5": save_hdf5,
    "txt": np.savetxt,
}


def write_names(directory: Path, names: list[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "file_names.txt").write_text("".join(f"{name}\n" for name in names))


@pytest.mark.parametrize("suffix", SAVERS)
def test_every_format_of_features_with_file_names(
    tmp_path: Path, values: np.ndarray, names: list[str], suffix: str
) -> None:
    write_names(tmp_path, names)
    SAVERS[suffix](tmp_path / f"features.{suffix}", values)

    for path in (tmp_path, tmp_path / f"features.{suffix}"):
        source = open_embeddings(path)

        np.testing.assert_array_equal(source.rows.read(0, 50).astype(np.float32), values)
        assert source.index.ids[8] == b"cat-8"
        assert source.info["ids_from"] == str(tmp_path / "file_names.txt")


def test_modules_are_views(tmp_path: Path, values: np.ndarray, names: list[str]) -> None:
    write_names(tmp_path, names)
    for module, shift in (("conv1", 0), ("layer4", 1)):
        (tmp_path / module).mkdir()
        np.save(tmp_path / module / "features.npy", values + np.float32(shift))

    source = open_embeddings(f"{tmp_path}::layer4")

    np.testing.assert_array_equal(source.rows.read(0, 50), values + np.float32(1))
    assert (source.view, source.index.ids[0]) == ("layer4", b"cat-0")
    with pytest.raises(InputError, match=r"conv1 \(50 × 4\), layer4 \(50 × 4\); .*::conv1"):
        open_embeddings(tmp_path)
    with pytest.raises(InputError, match=r"view '../x'.* conv1"):
        open_embeddings(tmp_path, view="../x")


def test_a_single_module_needs_no_choice(tmp_path: Path, values: np.ndarray) -> None:
    (tmp_path / "conv1").mkdir()
    np.save(tmp_path / "conv1" / "features.npy", values)

    source = open_embeddings(tmp_path)

    assert (source.view, source.identity, source.n_rows) == ("conv1", "row order", 50)


def test_features_in_parts_are_refused_by_name(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "features_0-50.npy", values)
    with pytest.raises(InputError, match=r"join features_0-50\.npy"):
        open_embeddings(tmp_path)

    (tmp_path / "conv1").mkdir()
    (tmp_path / "features_0-50.npy").rename(tmp_path / "conv1" / "features_0-50.npy")
    with pytest.raises(InputError, match=r"join conv1/features_0-50\.npy"):
        open_embeddings(tmp_path)


def test_other_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="manifest"):
        open_embeddings(tmp_path)


def test_a_wrong_number_of_file_names_is_refused(
    tmp_path: Path, values: np.ndarray, names: list[str]
) -> None:
    write_names(tmp_path, names[:-1])
    np.save(tmp_path / "features.npy", values)

    with pytest.raises(InputError, match=r"file_names.txt: .*49 ids, .* 50 rows"):
        open_embeddings(tmp_path)
