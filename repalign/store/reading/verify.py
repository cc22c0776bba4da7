"""Checking a whole store without using it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from repalign.arguments import checked
from repalign.exceptions import StoreError
from repalign.store.format.schema import INDEX_LEAF_ROWS, VerifyMode
from repalign.store.reading.store import Store

INDEX_BLOCK = 256 * INDEX_LEAF_ROWS


@dataclass(frozen=True)
class VerifyResult:
    """Outcome of a verification.

    Args:
        path: the store.
        mode: quick (structure, sizes, headers) or full (every byte as well).
        n_rows: number of rows that the store declares; 0 if it could not be opened.
        n_files: number of files looked at.
        problems: one line per damaged file; empty for a sound store.
    """

    path: Path
    mode: VerifyMode
    n_rows: int
    n_files: int
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return not self.problems


@checked
def verify_store(
    path: str | Path,
    *,
    mode: VerifyMode = "full",
    allow_incomplete: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> VerifyResult:
    """Check every file of a store and return what is wrong; damage is reported, not raised.

    Args:
        path: a packed file or a directory of shards.
        mode: ``quick`` checks structure, sizes, chunk places and headers; ``full`` also every
            value against its digest.
        allow_incomplete: accept a store that is still being written.
        on_progress: called with the files done and their total.

    Raises:
        InputError: another mode.

    Example:
        >>> import numpy as np, repalign
        >>> info = repalign.write_store("to-verify.h5", np.eye(3))
        >>> verify_store("to-verify.h5").is_sound
        True
    """
    path = Path(path)
    try:
        store = Store(path, allow_incomplete=allow_incomplete)
    except StoreError as error:
        return VerifyResult(path, mode, 0, 0, (str(error),))
    with store:
        n_files = store.n_files
        problems = []
        for number, problem in enumerate(_problems(store, mode)):
            if problem:
                problems.append(problem)
            if on_progress:
                on_progress(number + 1, n_files)
        return VerifyResult(path, mode, len(store), n_files, tuple(problems))


def _problems(store: Store, mode: VerifyMode) -> Iterator[str | None]:
    """Check the files one by one."""
    for number in range(store.n_files):
        try:
            check_file(store, number, mode)
        except StoreError as error:
            yield str(error)
        else:
            yield None


def check_file(store: Store, number: int, mode: VerifyMode) -> None:
    """Check one file of a store.

    Raises:
        StoreError: what is wrong with it.
    """
    file = store.file(number)
    for column in file.header.columns:
        reader = file.column(column.path)
        if mode == "full":
            reader.check_all()
    if mode == "full":  # identities that no row can have are refused when they are read
        start, stop = (int(row) for row in store.starts[number : number + 2])
        for at in range(start, stop, INDEX_BLOCK):
            store.read_index(at, min(stop, at + INDEX_BLOCK))
