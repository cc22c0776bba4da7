"""Rows of a memory-mapped file, which must not shrink while it is read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.exceptions import InputError
from repalign.rows import ArrayRows


@dataclass(frozen=True, eq=False)
class MappedRows(ArrayRows):
    """Rows of a file that is mapped into memory; its size is compared before every read.

    Reading beyond the end of a map ends the process.

    Args:
        path: the file.
        n_bytes: its size when it was mapped.
    """

    path: Path
    n_bytes: int

    @classmethod
    def of(cls, values: NDArray[Any], path: Path) -> Self:
        """Return the rows of an array that was mapped from a file just now."""
        path = path.absolute()
        return cls(values, path, path.stat().st_size)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array.

        Raises:
            InputError: the file is not as long as it was.
        """
        self._check_size()
        return super().read(start, stop)

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return the given rows as a new array.

        Raises:
            InputError: as for ``read``.
        """
        self._check_size()
        return super().take(rows)

    def _check_size(self) -> None:
        try:
            n_bytes = self.path.stat().st_size
        except OSError as error:
            raise InputError(f"{self.path}: was removed while in use; write it again") from error
        if n_bytes < self.n_bytes:
            raise InputError(
                f"{self.path}: had {self.n_bytes} bytes and has {n_bytes}; it was changed while in "
                "use, start again"
            )
