"""The files of a store as they are written: shards, their directory, and all rows packed."""

import errno
import fcntl
import os
import resource
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.arguments import checked
from repalign.exceptions import InputError, StoreError
from repalign.files import STDOUT, check_no_input, check_output, writing
from repalign.printable import byte_size
from repalign.store.digests import canonical_json, column_root, leaf_digest, sha256_of
from repalign.store.directory import (
    VERSION,
    committed_numbers,
    file_identity,
    is_finished,
    is_unused,
    parts_directory,
    read_directory,
    remove_directory,
    remove_leftovers,
    shard_name,
    write_manifest,
    write_sealed,
)
from repalign.store.format import (
    DESCRIPTION,
    DIGEST_BYTES,
    DIGESTS,
    FORMAT,
    FORMAT_VERSION,
    HEADER,
    MANIFEST,
    PARTS_SUFFIX,
    Column,
    WriteOptions,
)
from repalign.store.hdf5 import check_sizes, h5py
from repalign.store.header import Description, Header, IndexLayout, columns_of
from repalign.store.reader import Store, check_file
from repalign.store.rows import check_space

# What a file takes besides its values, at least: descriptions, and digests.
_OVERHEAD = 2**16


class FileWriter(AbstractContextManager["FileWriter"]):
    """A new HDF5 file of ``n_rows`` rows; columns are written from their first row to the last.

    The header is written by :meth:`finish`: a file without one is not a store.

    Args:
        path: file to create; it must not exist.
        description: how the rows were made.
        index: columns of the row index.
        n_rows: number of rows, at least one.
        shard: number of the shard; None for a packed store.

    Raises:
        OSError: the limit on the size of a file is below what the values take.
    """

    def __init__(
        self,
        path: Path,
        description: Description,
        index: IndexLayout,
        *,
        n_rows: int,
        shard: int | None,
    ) -> None:
        self._description = description
        self._index = index
        self._n_rows = n_rows
        self._shard = shard
        self._columns = columns_of(description, index)
        self._leaves: dict[str, list[bytes]] = {column.path: [] for column in self._columns}
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        needed = n_rows * sum(column.row_bytes for column in self._columns) + _OVERHEAD
        if limit != resource.RLIM_INFINITY and needed > limit:  # HDF5 cannot close such a file
            raise OSError(
                errno.EFBIG,
                f"{os.strerror(errno.EFBIG)} for the limit of {byte_size(limit)} (ulimit -f)",
                str(path),
            )
        # v110: all metadata has checksums, so that HDF5 itself notices most damage.
        # No chunk cache: whole chunks are written once.
        self._file = h5py.File(path, "x", libver=("v110", "v110"), rdcc_nbytes=0)
        # stay open: closing a dataset after every chunk costs more than writing the chunk
        self._datasets = {
            column.path: self._file.create_dataset(
                column.path,
                shape=column.shape(n_rows),
                dtype=column.dtype,
                chunks=column.chunks(n_rows),
                track_times=False,
            )
            for column in self._columns
        }

    def __exit__(self, *failure: object) -> None:
        self._file.close()

    def write(self, column: Column, start: int, values: NDArray[Any]) -> None:
        """Write rows from ``start`` on; all but the last call give whole leaves."""
        dataset = self._datasets[column.path]
        values = np.ascontiguousarray(values, dtype=column.dtype)
        for at in range(0, len(values), column.leaf_rows):
            leaf = values[at : at + column.leaf_rows]
            row = start + at
            if len(leaf) == dataset.chunks[0]:  # as it is, past the selections of HDF5
                place = (row,) if column.width is None else (row, 0)
                dataset.id.write_direct_chunk(place, leaf)
            else:
                dataset.write_direct(leaf, dest_sel=np.s_[row : row + len(leaf)])
            self._leaves[column.path].append(leaf_digest(leaf))

    def finish(self) -> Header:
        """Write digests and, last of all, the header; return it."""
        for path, leaves in self._leaves.items():
            table = np.frombuffer(b"".join(leaves), dtype=np.uint8).reshape(-1, DIGEST_BYTES)
            self._file.create_dataset(f"{DIGESTS}/{path}", data=table, track_times=False)
        header = Header(
            self._description,
            self._index,
            self._n_rows,
            self._shard,
            {path: column_root(leaves) for path, leaves in self._leaves.items()},
        )
        text = header.to_text()
        encoded = np.frombuffer(text.encode("utf-8", errors="surrogatepass"), dtype=np.uint8)
        self._file.create_dataset(HEADER, data=encoded, track_times=False)
        self._file.attrs["format"] = np.bytes_(FORMAT)
        self._file.attrs["format_version"] = np.int64(FORMAT_VERSION)
        self._file.attrs["header_sha256"] = np.bytes_(sha256_of(text))
        return header


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
        StoreError: the directory is not a complete store or is damaged, or the disk is full.

    Example:
        >>> import numpy as np, repalign
        >>> info = repalign.write_store("shards", np.eye(3))  # no .h5: a directory of shards
        >>> pack_store("shards", "packed.h5").name
        'packed.h5'
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise StoreError(f"{directory}: not a directory; only a directory of shards is packed")
    if target is None:
        folder = directory.resolve() if directory.name in ("", "..") else directory
        if not folder.name:
            raise InputError(f"{folder}: has no name to call the file by; name the file too")
        name = folder.name.removesuffix(PARTS_SUFFIX)
        target = folder.with_name(name if name.endswith(".h5") else f"{folder.stem}.h5")
    target = Path(target)
    check_target(target, overwrite=overwrite)
    with Store(directory) as store:
        return pack_opened(store, target, on_progress)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Refuse a target that is not a file name of a store, is an input, or exists.

    Raises:
        InputError: another ending than ``.h5``, a directory or device, or a file that may not be
            replaced.
    """
    if path.suffix != ".h5":
        raise InputError(f"{path}: a packed store is named *.h5; choose such a name")
    # the folder may come later
    if path.parent.exists() and check_output(path, overwrite=overwrite) is None:
        raise InputError(f"{path}: is a pipe or a device, and a store is a file; choose another")


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
        scratch: directory for the unfinished file; by default a new one.

    Raises:
        StoreError: the file cannot be written, or the directory is damaged.
    """
    check_space(target, sum(shard.n_bytes for shard in store.shards))
    total, done = sum(column.n_leaves(len(store)) for column in store.columns), 0
    try:
        with writing(target, failure=StoreError, scratch=scratch) as whole:
            with FileWriter(
                whole, store.description, store.index_layout, n_rows=len(store), shard=None
            ) as file:
                for column in store.columns:
                    for start in range(0, len(store), column.leaf_rows):
                        stop = min(len(store), start + column.leaf_rows)
                        file.write(column, start, store.read_column(column, start, stop))
                        done += 1
                        if on_progress:
                            on_progress(done, total)
                header = file.finish()
            check_sizes(header, whole.stat().st_size, str(target))
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:160]
        raise StoreError(f"{target}: cannot be written ({reason})") from error
    return target


GONE = (
    "is gone, another process completed or removed this store; write to another path, or one "
    "process at a time"
)
_SHOWN = 5


class ShardDirectory:
    """Where the shards of a store lie while it is written.

    One writer has it alone, or as many as ``options.n_writers`` says share it: the system
    releases their lock when they end, however they do.

    Args:
        target: the store.
        description: how the rows are made.
        options: plan of the shards and of the writers.

    Attributes:
        path: the directory.
        numbers: the shards that were committed before.
        n_rows: rows that a reader would find at the start.
        is_complete: whether nothing is left to write.

    Raises:
        InputError: the store would be standard output.
    """

    def __init__(self, target: Path, description: Description, options: WriteOptions) -> None:
        if target == STDOUT:
            raise InputError("-: is standard output, into which no store goes; choose a path")
        self.path = parts_directory(target)
        self.is_packed = self.path != target
        self.numbers: list[int] = []
        self.n_rows = 0
        self.is_complete = False
        self._target = target
        self._description = description
        self._options = options
        self._unlock: Callable[[], object] | None = None

    def begin(self, *, overwrite: bool, restart: bool = False) -> None:
        """Make room for a new store.

        Args:
            overwrite: whether what is there may be replaced.
            restart: whether that holds for an unfinished store of the same settings.

        Raises:
            InputError: something is there and is not to be replaced.
            StoreError: another process writes it.
        """
        if self.path.is_dir():
            self._take_lock()
        if restart and not overwrite and self._is_unfinished():
            with suppress(StoreError):  # damaged or of other settings: it stays
                self._check_settings(read_directory(self.path).description, self.path)
                remove_directory(self.path)
        if self.is_packed:
            check_target(self._target, overwrite=overwrite)
        if self.path.exists() and not (self.path.is_dir() and is_unused(self.path)):
            if not overwrite:
                raise InputError(f"{self.path}: {self._explain_existing(restart=restart)}")
            if not self.path.is_dir():
                raise InputError(f"{self.path}: exists and is not a store; choose another path")
            check_no_input(self.path)
            remove_directory(self.path)
        self._begin()

    def _is_unfinished(self) -> bool:
        return (self.path / DESCRIPTION).is_file() and not (self.path / MANIFEST).exists()

    def _explain_existing(self, *, restart: bool) -> str:
        if not self._is_unfinished():
            return "is there already; choose another path, or allow overwriting"
        if restart:
            return "is an unfinished store of other settings; remove it, or allow overwriting"
        return "is an unfinished store; continue it (resume=True), or allow overwriting"

    def resume(self) -> None:
        """Continue what is there, after checking that it is the same store, or begin it.

        Raises:
            InputError: something else is there.
            StoreError: it is damaged, was made with other settings, or another process writes it.
        """
        if self.path.is_dir():
            self._take_lock()
        has_shards = (self.path / DESCRIPTION).exists()
        content = read_directory(self.path) if has_shards else None
        identity = file_identity(self._target) if self.is_packed else None
        if identity and (content is None or content.replaces != identity):
            # The packed file is the result. Shards next to it are left over, unless the file was
            # there before them and is being replaced.
            with Store(self._target) as store:
                self._check_settings(store.description, self._target)
                self.n_rows = len(store)
            if self.path.exists():
                remove_directory(self.path)
            self.release()
            self.is_complete = True
        elif content is not None:
            self._check_settings(content.description, self.path)
            if content.shards:
                with Store(self.path, allow_incomplete=True) as store:
                    for number in range(store.n_files):
                        check_file(store, number, "quick")
            self.numbers = committed_numbers(self.path)
            self.n_rows = sum(shard.n_rows for shard in content.shards)
            self.is_complete = content.fingerprint is not None
        elif not self.path.exists() or (self.path.is_dir() and is_unused(self.path)):
            self._begin()
        elif (self.path / DESCRIPTION).exists():
            self.resume()  # another writer has begun the store meanwhile
        else:
            raise InputError(f"{self.path}: exists and is not a store; choose another path")

    def complete(self, on_progress: OnProgress | None = None) -> None:
        """Complete the store, unless shards of the plan are missing yet.

        Shards are packed, or get the manifest of a store that stays a directory. Of several
        writers that come here one does it and the others wait.

        Raises:
            InputError: there are no rows.
            StoreError: shards have a gap, are too many or damaged, or the disk is full.
        """
        try:
            handle = os.open(self.path / DESCRIPTION, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            if self._options.n_shards is None:
                raise StoreError(f"{self.path}: {GONE}") from error
            # another writer removes the directory of a file that it packed
            self.is_complete = is_finished(self._target) or self._target.is_file()
            return
        try:
            # not the lock of the directory, which others may hold that only have to close
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if is_finished(self._target):
                self.is_complete = True
            elif self._has_all_shards():
                # no process writes any more, and a killed packing leaves a large file
                remove_leftovers(self.path)
                with Store(self.path, allow_incomplete=True) as store:
                    if self.is_packed:
                        pack_opened(store, self._target, on_progress, scratch=self.path)
                    else:
                        shards, fingerprint = store.shards, store.fingerprint
                        layout = store.index_layout
                        write_manifest(self.path, store.description, layout, shards, fingerprint)
                if self.is_packed:
                    remove_directory(self.path)
                self.is_complete = True
        finally:
            os.close(handle)

    def _has_all_shards(self) -> bool:
        """Return whether shards 0 to the last are there, and no others.

        Raises:
            InputError: there are none, and no plan.
            StoreError: one before the last is missing without a plan, or one is beyond it.
        """
        numbers, n_planned = committed_numbers(self.path), self._options.n_shards
        if not numbers and n_planned is None:
            raise InputError(f"{self.path}: no rows were written; a store has at least one")
        if n_planned and numbers and numbers[-1] >= n_planned:
            raise StoreError(
                f"{self.path}: {shard_name(numbers[-1])} is beyond the {n_planned} planned "
                "shards; it belongs to another run"
            )
        expected = range(n_planned or numbers[-1] + 1)
        missing = sorted(set(expected) - set(numbers))
        if missing and n_planned is None:
            raise StoreError(
                f"{self.path}: {len(missing)} of {len(expected)} shards are missing, the first is "
                f"{shard_name(missing[0])}; write them, then finish"
            )
        return not missing

    def remove_if_empty(self) -> None:
        """Remove the directory if no shard is in it and no other process writes any."""
        is_alone = self._unlock is not None and self._options.n_writers == 1
        if is_alone and self.path.is_dir() and not committed_numbers(self.path):
            remove_directory(self.path)

    def release(self) -> None:
        """Let other writers have the directory."""
        if self._unlock is not None:
            self._unlock()
            self._unlock = None

    def _begin(self) -> None:
        """Write the description; a file that is to be replaced is remembered."""
        replaces = file_identity(self._target) if self.is_packed else None
        self.path.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        if not (self.path / DESCRIPTION).exists():
            plan = {"n_shards": self._options.n_shards, "replaces": replaces}
            content = VERSION | self._description.to_json() | plan
            write_sealed(self.path / DESCRIPTION, content)

    def _take_lock(self) -> None:
        """Lock the directory, alone where one writer is planned, else shared.

        Raises:
            StoreError: another process has it.
        """
        self.release()
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._unlock = weakref.finalize(self, os.close, handle)
        how = fcntl.LOCK_EX if self._options.n_writers == 1 else fcntl.LOCK_SH
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise StoreError(
                f"{self.path}: another process is writing this store; wait for it, or write to "
                "another path"
            ) from error
        except OSError:
            pass  # a file system without locks

    def _check_settings(self, stored: Description, where: Path) -> None:
        """Refuse to continue a store that was made in another way.

        Raises:
            StoreError: spec or views differ; the message names the keys.
        """
        old, new = stored.to_json(), self._description.to_json()
        changes = _list_changes(
            {"spec": old["spec"], "views": old["views"]},
            {"spec": new["spec"], "views": new["views"]},
        )
        if changes:
            more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
            raise StoreError(
                f"{where}: was written with other settings: {'; '.join(changes[:_SHOWN])}{more}; "
                "use the same, write to another path, or allow overwriting"
            )


def _list_changes(old: Any, new: Any, prefix: str = "") -> list[str]:
    """Return what differs between two JSON values, as ``key: old → new`` with dotted keys."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            change
            for key in sorted(old.keys() | new.keys())
            for change in _list_changes(
                old.get(key, "(absent)"), new.get(key, "(absent)"), f"{prefix}.{key}".lstrip(".")
            )
        ]
    if old == new and type(old) is type(new):
        return []
    return [f"{prefix}: {_short(old)} → {_short(new)}"]


def _short(value: Any) -> str:
    """Return a value for a message, cut to 60 characters."""
    text = value if value == "(absent)" else canonical_json(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
