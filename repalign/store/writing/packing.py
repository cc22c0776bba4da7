"""Packing a directory of shards into one file, and settling a directory as it is."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from repalign.arguments import checked
from repalign.exceptions import InputError, StoreError
from repalign.files import UNFINISHED, check_output, private_folder
from repalign.store.format.header import columns_of
from repalign.store.format.schema import PARTS_SUFFIX, Column
from repalign.store.format.sealed_json import sync_file, temporary_path
from repalign.store.reading.safety import check_sizes
from repalign.store.reading.store import Store
from repalign.store.rows.disk_space import check_space
from repalign.store.writing.file import FileWriter

OnProgress = Callable[[int, int], None]


@checked
def pack_store(
    directory: str | Path,
    target: str | Path | None = None,
    *,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> Path:
    """Copy a complete directory store into one file, which appears under its name when it is whole.

    Every value is checked on the way. The directory is left as it is.

    Args:
        directory: a directory of shards.
        target: the file, ending in ``.h5``; by default the directory's name with that ending.
        overwrite: replace an existing file.
        on_progress: called with the leaves done and their total.

    Returns:
        The path of the file.

    Raises:
        InputError: the target exists or has another ending.
        StoreError: the directory is no complete store or is damaged, or the disk is full.

    Example:
        >>> import numpy as np, repalign
        >>> info = repalign.write_store("shards", np.eye(3))  # no .h5: a directory of shards
        >>> pack_store("shards", "packed.h5").name
        'packed.h5'
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise StoreError(f"{directory}: not a directory; only a directory of shards is packed")
    target = default_target(directory) if target is None else Path(target)
    check_target(target, overwrite=overwrite)
    with Store(directory) as store:
        return pack_opened(store, target, on_progress)


def default_target(directory: Path) -> Path:
    """Return the file that a directory store is packed into."""
    directory = directory.resolve() if directory.name in ("", "..") else directory
    if not directory.name:
        raise InputError(f"{directory}: has no name to call the file by; name the file too")
    name = directory.name.removesuffix(PARTS_SUFFIX)
    return directory.with_name(name if name.endswith(".h5") else f"{directory.stem}.h5")


def check_target(path: Path, *, overwrite: bool) -> None:
    """Refuse a target that is no file name of a store, is an input, or exists.

    Raises:
        InputError: another ending than ``.h5``, a directory or device, or a file that may not be
            replaced.
    """
    if path.suffix != ".h5":
        raise InputError(f"{path}: a packed store is named *.h5; choose such a name")
    _file_behind(path, overwrite=overwrite)


def _file_behind(path: Path, *, overwrite: bool = True) -> Path:
    """Return the file that a store is packed into, links followed; its folder may come later."""
    if not path.parent.exists():
        return path
    target = check_output(path, overwrite=overwrite)
    if target is None:
        raise InputError(f"{path}: is a pipe or a device, and a store is a file; choose another")
    return target


def pack_opened(
    store: Store,
    target: Path,
    on_progress: OnProgress | None = None,
    *,
    scratch: Path | None = None,
) -> Path:
    """Pack an open directory store, replacing the target.

    Args:
        store: the directory store.
        target: the file.
        on_progress: called with the leaves done and their total.
        scratch: directory on the same disk for the unfinished file; by default a new one.
    """
    check_space(target, store.info.n_bytes)
    with new_file(target, scratch) as temporary:
        columns = columns_of(store.description, store.index_layout)
        with FileWriter(
            temporary, store.description, store.index_layout, n_rows=len(store), shard=None
        ) as file:
            total = sum(column.n_leaves(len(store)) for column in columns)
            done = 0
            for column in columns:
                for _ in _copy(store, column, file):
                    done += 1
                    if on_progress:
                        on_progress(done, total)
            packed = file.finish()
        check_sizes(packed, temporary.stat().st_size, str(target))
    return target


@contextmanager
def new_file(target: Path, scratch: Path | None = None) -> Iterator[Path]:
    """Give a temporary path whose file gets the name of the target if all goes well.

    A link is followed and stays; a file that is replaced keeps its permissions.

    Raises:
        InputError: the target is an input, or no file.
        StoreError: the file cannot be written.
    """
    file = _file_behind(target)
    is_elsewhere = file.parent != target.parent.resolve()  # the link may lead to another disk
    try:
        with ExitStack() as stack:
            if scratch is None or is_elsewhere:
                scratch = stack.enter_context(private_folder(file.parent, UNFINISHED))
            temporary = temporary_path(scratch / file.name)
            stack.callback(temporary.unlink, missing_ok=True)
            yield temporary
            if file.exists():
                temporary.chmod(file.stat().st_mode & 0o777)
            sync_file(temporary)
            temporary.replace(file)
        sync_file(file.parent)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:160]
        raise StoreError(f"{target}: cannot be written ({reason})") from error


def _copy(store: Store, column: Column, file: FileWriter) -> Iterator[None]:
    """Copy a column leaf by leaf, checking each."""
    for start in range(0, len(store), column.leaf_rows):
        stop = min(len(store), start + column.leaf_rows)
        file.write(column, start, store.rows.read(column, start, stop))
        yield
