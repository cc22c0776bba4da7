"""The papers' data sets from where they are published, by torchvision, when a user asks."""

import contextlib
import io
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError

CIFAR_10 = (
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"
)  # fmt: skip
SHAPES_3D = (
    "https://storage.googleapis.com/3d-shapes/3dshapes.h5", "099a2078d58cec4daad0702c55d06868"
)  # fmt: skip


def fetch(name: str, folder: Path) -> Path:
    """Fetch a data set into a folder, unless it is there, and return where its own files lie.

    All of them are checked against their published digests, and none is a pickle.

    Raises:
        InputError: No data set of that name, or it could not be fetched.
    """
    if name not in FETCHERS:
        raise InputError(f"cannot fetch {name!r}; expected one of: {', '.join(FETCHERS)}")
    try:
        # torchvision prints to where the table goes
        with contextlib.redirect_stdout(io.StringIO()):
            return FETCHERS[name](folder)
    except ImportError as error:
        raise InputError(f"torchvision is needed to fetch {name}: {error}") from error
    except (OSError, RuntimeError, HTTPException) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{name} could not be fetched into {folder} ({reason}); fetch it where there is a "
            "network and give the folder of its files to --data, without --fetch"
        ) from error


def _mnist(folder: Path, kind: str = "MNIST") -> Path:
    from torchvision import datasets

    found: Any = getattr(datasets, kind)(folder, download=True)
    return Path(found.raw_folder)


def _fashion_mnist(folder: Path) -> Path:
    return _mnist(folder, "FashionMNIST")


def _cifar_10(folder: Path) -> Path:
    from torchvision.datasets.utils import download_and_extract_archive

    url, digest = CIFAR_10
    # its own binary files: those that torchvision reads are pickles
    download_and_extract_archive(url, folder, md5=digest)
    return folder / "cifar-10-batches-bin"


def _shapes_3d(folder: Path) -> Path:
    from torchvision.datasets.utils import download_url

    url, digest = SHAPES_3D
    download_url(url, folder, md5=digest)
    return folder


FETCHERS: dict[str, Callable[[Path], Path]] = {
    "MNIST": _mnist,
    "FashionMNIST": _fashion_mnist,
    "CIFAR10": _cifar_10,
    "Shapes3D": _shapes_3d,
}
