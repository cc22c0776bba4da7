import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from repalign.exceptions import InputError
from repalign.experiments.digit_images import DIGITS, find_digits, load_digits


def write_idx(path: Path, values: np.ndarray) -> None:
    header = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    with gzip.open(path, "wb") as file:
        file.write(header + values.tobytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, 5, 5)).astype(np.uint8)
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", (np.arange(20) % 10).astype(np.uint8))
    return tmp_path


def test_digits_of_scikit_learn_stand_in_under_their_own_name() -> None:
    data = find_digits(None)
    assert data.name == DIGITS
    digits = load_digits(data)
    assert digits.images.shape == (1797, 8, 8)
    assert digits.images.max() == 240
    assert np.bincount(digits.labels).min() > 170


def test_files_of_mnist_are_read_and_not_called_mnist_if_they_are_not(folder: Path) -> None:
    data = find_digits(folder)
    assert data.name == f"images of {folder.name}"
    digits = load_digits(data)
    assert digits.images.shape == (20, 5, 5)
    assert digits.labels.tolist() == [*range(10)] * 2
    write_idx(folder / "train-labels-idx1-ubyte.gz", np.zeros(20, dtype=np.uint8))
    assert find_digits(folder).digest != data.digest


def test_rows_are_centred_and_reduced_to_principal_directions(folder: Path) -> None:
    digits = load_digits(find_digits(folder))
    whole, labels = digits.rows(None, None)
    assert whole.shape == (20, 25)
    assert np.allclose(whole.mean(axis=0), 0)
    assert whole.std() == pytest.approx(1)
    few, labels = digits.rows(12, 3)
    assert (few.shape, labels.shape) == ((12, 3), (12,))
    assert np.all(np.diff(few.var(axis=0)) < 0)


def test_what_is_missing_or_does_not_fit_is_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="train-images-idx"):
        find_digits(tmp_path / "nothing")
    write_idx(folder / "train-labels-idx1-ubyte.gz", np.zeros(3, dtype=np.uint8))
    with pytest.raises(InputError, match=r"3 labels.* 20 images"):
        load_digits(find_digits(folder))
    write_idx(folder / "train-labels-idx1-ubyte.gz", np.zeros((3, 1), dtype=np.uint8))
    with pytest.raises(InputError, match=r"labels.* 2 dimensions"):
        load_digits(find_digits(folder))
