"""Labelled images: the user's in the format of MNIST or CIFAR-10, else scikit-learn's digits."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray, IntArray
from repalign.data.image_arrays import read_idx
from repalign.exceptions import InputError
from repalign.experiments.reproduce.given_data import GivenData, digest_of
from repalign.files import open_regular

DIGITS = "digits of scikit-learn (1,797 of 8 × 8)"
STEMS = {"images": "train-images", "labels": "train-labels"}
# CIFAR-10 in its binary version: of every image its label, then 32 × 32 of red, green and blue
BATCHES, CIFAR_SHAPE = "data_batch_*.bin", (3, 32, 32)
# What stands behind the same names of files, by the digest of the pixels.
KNOWN = {
    "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757": "MNIST",
    "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012": "Fashion-MNIST",
}


@dataclass(frozen=True, eq=False)
class DigitImages:
    """Images ``(n, height, width)``, or with three colours behind, and their labels."""

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
        InputError: The folder does not hold images and labels as MNIST or CIFAR-10 ships them.
    """
    if path is None:
        return GivenData(DIGITS)
    if batches := sorted(path.glob(BATCHES)):
        return GivenData(f"images of {path.resolve().name}", path, digest_of(batches))
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
    if batches := sorted(path.glob(BATCHES)):
        return _cifar(batches)
    images = read_idx(_file(path, STEMS["images"]), "images", dimensions=(3,))
    labels = read_idx(_file(path, STEMS["labels"]), "labels", dimensions=(1,))
    if len(images) != len(labels):
        raise InputError(f"{path} holds {len(labels)} labels for {len(images)} images")
    return DigitImages(images, labels.astype(np.int64))


def _cifar(batches: Sequence[Path]) -> DigitImages:
    """Read the binary files, one after the other."""
    rows = []
    for batch in batches:
        with open_regular(batch) as file:
            rows.append(np.frombuffer(file.read(), dtype=np.uint8))
        if not rows[-1].size or rows[-1].size % (1 + math.prod(CIFAR_SHAPE)):
            raise InputError(
                f"{batch} holds {rows[-1].size} bytes; expected a multiple of "
                f"{1 + math.prod(CIFAR_SHAPE)}, as in CIFAR-10's binary version"
            )
    whole = np.concatenate(rows).reshape(-1, 1 + math.prod(CIFAR_SHAPE))
    colours = whole[:, 1:].reshape(-1, *CIFAR_SHAPE)
    return DigitImages(
        np.ascontiguousarray(colours.transpose(0, 2, 3, 1)), whole[:, 0].astype(np.int64)
    )


def _file(path: Path, stem: str) -> Path:
    found = sorted(path.glob(f"{stem}*-ubyte*")) if path.is_dir() else []
    if not found:
        raise InputError(
            f"{path} holds no {stem}-idx…-ubyte[.gz]; expected the folder of images and labels in "
            f"MNIST's format, or of {BATCHES} of CIFAR-10"
        )
    return found[0]
