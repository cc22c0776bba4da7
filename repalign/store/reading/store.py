"""Reading a store: one packed file or a directory of shards, without loading it whole."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.arguments import checked
from repalign.exceptions import InputError, StoreError, reading
from repalign.store.format.digests import fingerprint_of
from repalign.store.format.directory import DirectoryContent, read_directory
from repalign.store.format.header import Description, Header, IndexLayout, ViewInfo, columns_of
from repalign.store.format.schema import FORMAT_VERSION, INDEX_LEAF_ROWS, VerifyMode
from repalign.store.joining.index import RowIndex
from repalign.store.reading.rows import StoredRows, StoreFile


@dataclass(frozen=True)
class StoreInfo:
    """Summary of a store.

    Args:
        path: where it is.
        layout: a packed file or a directory of shards.
        format_version: version of the format.
        n_rows: number of rows.
        views: the representations, sorted by name.
        index_columns: columns of the row index.
        spec: everything that determines the values.
        spec_sha256: sha256 of the canonical JSON of the spec.
        environment: versions and machine class of the run that wrote it.
        licence: note on the terms of use, or None.
        is_complete: whether no shard is missing.
        n_shards: number of files.
        n_bytes: size on disk.
    """

    path: Path
    layout: Literal["file", "directory"]
    format_version: int
    n_rows: int
    views: tuple[ViewInfo, ...]
    index_columns: tuple[str, ...]
    spec: Mapping[str, Any]
    spec_sha256: str
    environment: Mapping[str, Any]
    licence: str | None
    is_complete: bool
    n_shards: int
    n_bytes: int


@checked
def open_store(path: str | Path, *, allow_incomplete: bool = False) -> "Store":
    """Open a store for reading; only its description is read now.

    Args:
        path: a packed file, or a directory of shards.
        allow_incomplete: read the shards present so far of a store that is being written.

    Raises:
        StoreError: damaged, hostile, of another version, or not finished.

    Example:
        >>> import numpy as np, repalign
        >>> info = repalign.write_store("to-open.h5", np.eye(3), spec={"model": "mine"})
        >>> with open_store("to-open.h5") as store:
        ...     dict(store.spec), len(store)
        ({'model': 'mine'}, 3)
    """
    return Store(path, allow_incomplete=allow_incomplete)


class Store:
    """Rows of one or several views with their identities; lazy, and usable as a context.

    Every value is checked against its checksum when it is read. A store can be pickled and used
    after a fork (files are then opened anew), and read by several threads.

    Args:
        path: a packed file, or a directory of shards.
        allow_incomplete: read the shards present so far of a store that is being written.

    Raises:
        StoreError: damaged, hostile, of another version, or not finished.

    Example:
        >>> import numpy as np, repalign
        >>> info = repalign.write_store("two.h5", {"first": np.eye(3), "second": np.ones((3, 2))})
        >>> with repalign.open_store("two.h5") as store:
        ...     len(store), store.view("second").read(0, 1)
        (3, array([[1., 1.]], dtype=float32))
    """

    @checked
    def __init__(self, path: str | Path, *, allow_incomplete: bool = False) -> None:
        self.path = path = Path(path)
        self._allow_incomplete = allow_incomplete
        self._content: DirectoryContent | None = None
        self._fingerprint: str | None
        with reading(path):
            self._open(allow_incomplete=allow_incomplete)

    def _open(self, *, allow_incomplete: bool) -> None:
        path = self.path
        if path.is_dir():
            content = _read_usable(path, allow_incomplete=allow_incomplete)
            assert content.index is not None, "a usable directory has a shard"
            self._content = content
            self.description: Description = content.description
            self.index_layout: IndexLayout = content.index
            self._fingerprint = content.fingerprint
            self.rows = StoredRows(path, content.description, content.shards)
        else:
            header = _packed_header(path)
            self.description, self.index_layout = header.description, header.index
            self._fingerprint = header.fingerprint
            self.rows = StoredRows(path, header)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopened, (self.path, self._allow_incomplete))

    def __len__(self) -> int:
        return int(self.rows.starts[-1])

    @property
    def views(self) -> Mapping[str, ViewInfo]:
        """The representations, by name."""
        return MappingProxyType({view.name: view for view in self.description.views})

    @property
    def spec(self) -> Mapping[str, Any]:
        """Everything that determines the values."""
        return self.description.spec

    @property
    def index(self) -> "StoreIndex":
        """The identities of the rows, read in slices."""
        return StoreIndex(self.rows, self.index_layout)

    @property
    def fingerprint(self) -> str:
        """What identifies the content, however it is cut into files."""
        if self._fingerprint is None:
            columns = columns_of(self.description, self.index_layout)
            roots = self.roots(*(column.path for column in columns))
            self._fingerprint = fingerprint_of(len(self), columns, roots)
        return self._fingerprint

    def roots(self, *paths: str) -> dict[str, str]:
        """Return what identifies the values of columns, such as ``emb/final`` or ``index/ids``."""
        columns = columns_of(self.description, self.index_layout)
        return self.rows.roots([column for column in columns if column.path in paths])

    @property
    def info(self) -> StoreInfo:
        """What the store says of itself."""
        shards = self._content.shards if self._content else ()
        return StoreInfo(
            path=self.path,
            layout="directory" if self._content else "file",
            format_version=FORMAT_VERSION,
            n_rows=len(self),
            views=self.description.views,
            index_columns=self.index_layout.columns,
            spec=self.description.spec,
            spec_sha256=self.description.spec_sha256,
            environment=self.description.environment,
            licence=self.description.licence,
            is_complete=self._content is None or self._content.is_complete,
            n_shards=max(1, len(shards)),
            n_bytes=sum(s.n_bytes for s in shards) or self.path.stat().st_size,
        )

    @checked
    def view(self, name: str | None = None) -> "StoreView":
        """Return the rows of a view; without a name, of the only one.

        Raises:
            InputError: no view of that name, or several and no name.
        """
        known = ", ".join(self.views)
        if name is None:
            if len(self.views) > 1:
                raise InputError(f"{self.path}: has the views {known}; name one of them")
            name = next(iter(self.views))
        if name not in self.views:
            raise InputError(f"{self.path}: no view {name!r}; it has {known}")
        return StoreView(self.rows, self.views[name])

    def close(self) -> None:
        """Release all files; the store cannot be read any more."""
        self.rows.close()


class StoreView:
    """Rows of one view; satisfies :class:`repalign.aliases.Rows`."""

    def __init__(self, rows: StoredRows, info: ViewInfo) -> None:
        self._rows = rows
        self._column = info.column
        self.info = info

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        return int(self._rows.starts[-1]), self.info.dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type in which the values are stored."""
        return self._column.dtype

    def read(self, start: int, stop: int) -> FloatArray:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        return self._rows.read(self._column, start, stop)

    def take(self, rows: IntArray) -> FloatArray:
        """Return the given rows; they are strictly increasing."""
        return self._rows.take(self._column, rows)


class StoreIndex:
    """Identities of the rows, read in slices; satisfies :class:`ReadableIndex`."""

    def __init__(self, rows: StoredRows, layout: IndexLayout) -> None:
        self._rows = rows
        self.columns = layout.columns
        self._datasets = layout.datasets()

    def __len__(self) -> int:
        return int(self._rows.starts[-1])

    def slice(self, start: int, stop: int) -> RowIndex:
        """Return the index of rows ``start`` to ``stop`` (exclusive).

        Raises:
            InputError: rows that the store does not have.
            StoreError: a damaged file, or identities that no row can have.
        """
        columns = {
            name: self._rows.read(column, start, stop)
            for name, column in zip(self.columns, self._datasets, strict=True)
        }
        try:
            return RowIndex(**columns)
        except InputError as error:
            raise StoreError(f"{self._rows.path}: rows {start} to {stop}: {error}") from error


def _reopened(path: Path, allow_incomplete: bool) -> Store:
    """Open a store that was pickled."""
    return Store(path, allow_incomplete=allow_incomplete)


def _packed_header(path: Path) -> Header:
    """Return the header of a packed store."""
    file = StoreFile(path)
    file.close()
    if file.header.shard is not None:
        raise StoreError(
            f"{path}: is shard {file.header.shard} of a store; open the directory {path.parent}"
        )
    return file.header


def _read_usable(path: Path, *, allow_incomplete: bool) -> DirectoryContent:
    """Return what a directory store holds, refusing one that is not finished."""
    content = read_directory(path)
    if content.index is None:
        raise StoreError(f"{path}: holds no rows yet; continue the run that writes it")
    if not (content.is_complete or allow_incomplete):
        planned = f" of {content.n_shards}" if content.n_shards else ""
        raise StoreError(
            f"{path}: not finished, {len(content.shards)}{planned} shards are there; continue the "
            "run that writes it, or allow an incomplete store"
        )
    return content


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
        n_files = store.rows.n_files
        problems = []
        for number, problem in enumerate(_problems(store, mode)):
            if problem:
                problems.append(problem)
            if on_progress:
                on_progress(number + 1, n_files)
        return VerifyResult(path, mode, len(store), n_files, tuple(problems))


def _problems(store: Store, mode: VerifyMode) -> Iterator[str | None]:
    """Check the files one by one."""
    for number in range(store.rows.n_files):
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
    file = store.rows.file(number)
    for column in file.header.columns:
        reader = file.column(column.path)
        if mode == "full":
            reader.check_all()
    if mode == "full":  # identities that no row can have are refused when they are read
        start, stop = (int(row) for row in store.rows.starts[number : number + 2])
        for at in range(start, stop, INDEX_BLOCK):
            store.index.slice(at, min(stop, at + INDEX_BLOCK))
