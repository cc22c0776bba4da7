"""Whether a disk has room for what is about to be written."""

import shutil
from pathlib import Path

from repalign.exceptions import StoreError

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
