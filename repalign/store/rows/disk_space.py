"""Whether a disk has room for what is about to be written."""

import shutil
import tempfile
from pathlib import Path

from repalign.exceptions import InputError, StoreError
from repalign.printable import byte_size

_MARGIN = 1.05


def check_space(path: Path, n_bytes: int) -> None:
    """Refuse to start what cannot be finished.

    Raises:
        StoreError: less than ``n_bytes`` and five per cent are free where ``path`` will lie.
    """
    existing = path.absolute()
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    needed = int(n_bytes * _MARGIN)
    if free < needed:
        raise StoreError(
            f"{path}: needs {needed / 1e9:.2f} GB of disk, {free / 1e9:.2f} GB are free; free some "
            "space, store float16, or write elsewhere"
        )


def check_temporary_space(n_bytes: int, *, label: str) -> None:
    """Check that the directory of temporary files has room for ``n_bytes``.

    Raises:
        InputError: it has not.
    """
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free
    if n_bytes > 0.95 * free:
        raise InputError(
            f"{label}: needs a temporary copy of {byte_size(n_bytes, up=True)}, {directory} has "
            f"{byte_size(free)} free; free some or set TMPDIR to a larger disk"
        )
