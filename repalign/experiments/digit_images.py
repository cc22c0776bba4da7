"""Labelled images of digits: the user's in MNIST's format, else those of scikit-learn."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray, IntArray
from repalign.data.image_arrays import read_idx
from repalign.exceptions import InputError
from repalign.experiments.reproduce.given_data import GivenData, digest_of

DIGITS = "digits of scikit-learn (1,797 of 8 × 8)"
STEMS = {"images": "train-images", "labels": "train-labels"}
# What stands behind the same names of files, by the digest of the pixels.
KNOWN = {
    "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757": "MNIST",
    "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012": "Fashion-MNIST",
}


@dataclass(frozen=True, eq=False)
class DigitImages:
    """Images ``(n, height, width)`` of grey levels and their labels."""

    images: NDArray[np.uint8]
    labels: IntArray

    def rows(self, n_rows: int | None, n_columns: int | None) -> tuple[FloatArray, IntArray]:
        """Return centred rows of pixels, of one standard deviation over all of them, and labels.

        Args:
            n_rows: The first of them; None for all.
            n_columns: Leading principal directions instead of pixels, where there are more.
        """
        flat = self.images[:n_rows].reshape(-1, self.images[0].size).astype(np.float64)
        flat -= flat.mean(axis=0)
        if n_columns is not None and flat.shape[1] > n_columns:
            _, directions = np.linalg.eigh(flat.T @ flat)
            flat = flat @ directions[:, ::-1][:, :n_columns]
        return flat / flat.std(), self.labels[:n_rows]


def find_digits(path: Path | None) -> GivenData:
    """Tell which digits these are.

    Raises:
        InputError: The folder does not hold images and labels as MNIST ships them.
    """
    if path is None:
        return GivenData(DIGITS)
    files = [_file(path, stem) for stem in STEMS.values()]
    pixels = read_idx(files[0], "images", dimensions=(3,))
    name = KNOWN.get(hashlib.sha256(pixels.tobytes()).hexdigest())
    return GivenData(name or f"images of {path.resolve().name}", path, digest_of(files))


def load_digits(data: GivenData | None) -> DigitImages:
    """Return the images of data that ``find_digits`` told.

    Raises:
        InputError: They cannot be read, or labels are not one for each image.
    """
    if data is None or data.path is None:
        from sklearn.datasets import load_digits as load_labelled

        # 0 to 16
        found = load_labelled()
        return DigitImages((found.images * 15).astype(np.uint8), found.target.astype(np.int64))
    path = data.path
    images = read_idx(_file(path, STEMS["images"]), "images", dimensions=(3,))
    labels = read_idx(_file(path, STEMS["labels"]), "labels", dimensions=(1,))
    if len(images) != len(labels):
        raise InputError(f"{path} holds {len(labels)} labels for {len(images)} images")
    return DigitImages(images, labels.astype(np.int64))


def _file(path: Path, stem: str) -> Path:
    found = sorted(path.glob(f"{stem}*-ubyte*")) if path.is_dir() else []
    if not found:
        raise InputError(
            f"{path} holds no {stem}-idx…-ubyte[.gz]; expected the folder of images and labels in "
            "MNIST's format"
        )
    return found[0]
