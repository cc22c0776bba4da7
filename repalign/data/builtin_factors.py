"""Factors of the data that come with scikit-learn: what is known of every built-in image."""

import numpy as np
from numpy.typing import NDArray

from repalign.data.factors import ColumnTable, table_of
from repalign.data.open_data import DIGITS, open_builtin
from repalign.exceptions import InputError

BUILTIN_PREFIX = "builtin:"


def builtin_columns(name: str) -> ColumnTable:
    """Return the factors of ``builtin:digits``, by the ids that ``extract`` gives its images.

    ``digit`` is the label; ``ink``, ``width``, ``height`` and ``slant`` are measured on the
    pixels (see ``stroke_moments``).

    Raises:
        InputError: No built-in data with factors are called that.
    """
    if name != BUILTIN_PREFIX + DIGITS:
        raise InputError(f"{name}: has no factors; expected {BUILTIN_PREFIX}{DIGITS}")
    from sklearn.datasets import load_digits

    digits = load_digits()
    source = open_builtin(DIGITS)
    columns = {"digit": digits.target, **stroke_moments(digits.images)}
    return table_of(columns, ids=[source.read(row).id for row in range(len(source))], name=name)


def stroke_moments(images: NDArray[np.floating]) -> dict[str, NDArray[np.float64]]:
    """Measure the strokes of images (n × rows × columns, 0 is paper).

    ``ink`` is the mean grey level, ``width`` and ``height`` the standard deviations of the ink
    about its centre in pixels, ``slant`` the shear: columns to the right for a row upwards.
    """
    grey = np.asarray(images, dtype=np.float64)
    ink = grey.sum(axis=(1, 2))
    y, x = np.mgrid[: grey.shape[1], : grey.shape[2]].astype(np.float64)

    def mean(of: NDArray[np.float64]) -> NDArray[np.float64]:
        return (grey * of).sum(axis=(1, 2)) / ink

    right = x - mean(np.broadcast_to(x, grey.shape))[:, None, None]
    up = mean(np.broadcast_to(y, grey.shape))[:, None, None] - y
    return {
        "ink": grey.mean(axis=(1, 2)),
        "width": np.sqrt(mean(right**2)),
        "height": np.sqrt(mean(up**2)),
        "slant": mean(right * up) / mean(up**2),
    }
