"""Images in HDF5: found by name, read row by row, and nothing outside the file is followed."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from repalign.data.read_options import ReadOptions
from repalign.exceptions import InputError
from repalign.extraction.run import open_source


@pytest.fixture
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 8, 6, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("name", "column"), [("images", None), ("group/anything", None), ("other", "other")]
)
def test_images_of_an_hdf5_file(
    tmp_path: Path, pixels: np.ndarray, name: str, column: str | None
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset(name, data=pixels, chunks=(2, 8, 6, 3), compression="gzip")
    source = open_source(str(tmp_path / "a.h5"), "image", ReadOptions(column=column))
    assert len(source) == 5
    np.testing.assert_array_equal(np.asarray(source.read(3).value), pixels[3])
    assert source.description["column"] == name
    assert source.read(0).sha256 != source.read(1).sha256


def test_wrong_and_hostile_files_get_one_line(tmp_path: Path, pixels: np.ndarray) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["one"], file["two"] = pixels, pixels.astype(np.float32)
    with pytest.raises(InputError, match=r"no dataset .*a.h5; .*one, two"):
        open_source(str(path), "image", ReadOptions())
    with pytest.raises(InputError, match=r"no dataset three "):
        open_source(str(path), "image", ReadOptions(column="three"))
    with pytest.raises(InputError, match=r"float32 .*\(5, 8, 6, 3\)"):
        open_source(str(path), "image", ReadOptions(column="two"))
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["images"] = h5py.ExternalLink(str(path), "one")
    with pytest.raises(InputError, match="external link"):
        open_source(str(tmp_path / "link.h5"), "image", ReadOptions())
    path.write_bytes(b"no HDF5")
    with pytest.raises(InputError, match=r"a.h5: .*cannot read"):
        open_source(str(path), "image", ReadOptions())
    with pytest.raises(InputError, match=r"a.h5 .*text"):
        open_source(str(path), "text", ReadOptions())
