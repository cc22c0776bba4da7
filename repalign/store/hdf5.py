"""h5py without plugins; files of a store, which may be damaged or hostile.

A file may name any filter, and HDF5 would load a shared library to serve it: h5py is imported
with that search switched off. A file of a store is accepted when it has exactly the objects that
its sealed header describes, each reached by a hard link, stored inside the file, of the expected
type, shape, chunks and filters.
"""

import hashlib
import math
import os
import platform
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from repalign.exceptions import InputError, RepalignError, StoreError, reading
from repalign.printable import byte_size
from repalign.store.digests import canonical_json
from repalign.store.format import (
    DIGEST_BYTES,
    DIGESTS,
    EMBEDDINGS,
    FORMAT,
    HEADER,
    INDEX,
    MAX_JSON_BYTES,
    TOP_LEVEL,
)
from repalign.store.header import Header, check_version, parse_header, parse_json

_SEARCH = "HDF5_PLUGIN_PRELOAD"
_OFF = "::"

if "h5py" in sys.modules or _SEARCH in os.environ:
    import h5py
else:
    # HDF5 reads the variable once, at the first question about plugins: nothing is left behind in
    # the environment, which programs started from here would inherit.
    os.environ[_SEARCH] = _OFF
    try:
        import h5py

        h5py.h5pl.size()
    finally:
        del os.environ[_SEARCH]

__all__ = [
    "HDF5_ERRORS",
    "check_sizes",
    "check_stored_inside",
    "describe_environment",
    "file_size",
    "h5py",
    "open_checked",
    "reading_hdf5",
]

# h5py raises KeyError for objects that cannot be opened, TypeError for types that numpy does not
# have, ValueError for names and types of no form, OverflowError and MemoryError for sizes that
# nothing has, RuntimeError and OSError for the rest.
HDF5_ERRORS: tuple[type[Exception], ...] = (
    KeyError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)
ATTRIBUTES = frozenset({"format", "format_version", "header_sha256"})
_LINKS = {h5py.h5l.TYPE_SOFT: "a soft link", h5py.h5l.TYPE_EXTERNAL: "an external link"}


@contextmanager
def reading_hdf5(name: object, *, failure: type[RepalignError] = InputError) -> Iterator[None]:
    """Map the exceptions of h5py for a damaged file, as ``reading`` does."""
    with reading(
        name, *HDF5_ERRORS, problem="HDF5 cannot read it, is it damaged?", failure=failure
    ):
        yield


def check_stored_inside(
    dataset: Any, name: object, *, failure: type[RepalignError] = InputError
) -> Any:
    """Check that a dataset lies in its file; return its creation properties.

    Raises:
        InputError: they lie in other files, which are not read; or ``failure``.
    """
    with reading_hdf5(name, failure=failure):
        properties = dataset.id.get_create_plist()
        n_external, layout = properties.get_external_count(), properties.get_layout()
    if n_external:
        raise failure(f"{name}: has external storage; copy the data into the file itself")
    if layout == h5py.h5d.VIRTUAL:
        raise failure(f"{name}: is a virtual dataset; copy the data into the file itself")
    return properties


def describe_environment() -> dict[str, Any]:
    """Return the versions that a store records, without users, machines or paths."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "h5py": h5py.version.version,
        "hdf5": h5py.version.hdf5_version,
        "platform": f"{platform.system()} {platform.machine()}",
    }


def file_size(path: Path, *, follow_links: bool = True) -> int:
    """Return the size of a regular file.

    Opening a pipe would wait for ever.

    Raises:
        StoreError: there is none, or it is a link that is not to be followed.
    """
    try:
        status = path.stat(follow_symlinks=follow_links)
    except OSError as error:
        raise StoreError(f"{path}: cannot be opened ({error.strerror})") from error
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    raise StoreError(
        f"{path}: not a regular file; give a store written by repalign"
        if follow_links
        else f"{path}: is a link or not a regular file; shards must lie in the directory"
    )


def open_checked(path: Path, *, shard: int | None = None) -> tuple[Any, Header]:
    """Open and check one file of a store; return it with its header.

    Args:
        path: the file.
        shard: number of the shard that it must be; None for a packed store.

    Raises:
        StoreError: the file is missing, damaged, hostile, or of another format or version.
    """
    size = file_size(path, follow_links=shard is None)
    with reading_hdf5(path, failure=StoreError):
        # Files are never changed once they have their name: no lock is needed, and network
        # file systems often have none.
        file = h5py.File(path, "r", locking=False)
    try:
        header = _read_header(file, str(path))
        check_sizes(header, size, str(path))
        _check_structure(file, header, str(path))
        if header.shard != shard:
            raise StoreError(
                f"{path}: is shard {header.shard} of a store; open the directory {path.parent}"
                if shard is None
                else f"{path}: its header has the shard number {header.shard}; it was renamed"
            )
    except StoreError:
        file.close()
        raise
    return file, header


def _read_header(file: Any, path: str) -> Header:
    """Check format and version, then read the header and its seal."""
    if _attribute(file, "format", path) != FORMAT.encode():
        raise StoreError(f"{path}: not a {FORMAT} file; import it with: repalign store import")
    version = _attribute(file, "format_version", path)
    if not isinstance(version, np.integer):
        raise StoreError(
            f"{path}: format_version is {version!r}, not a number; the file is damaged"
        )
    check_version(int(version), path)
    with reading_hdf5(path, failure=StoreError):
        n_user_bytes = file.userblock_size
    if n_user_bytes:
        raise StoreError(f"{path}: has a user block of {n_user_bytes} bytes; expected none")
    _check_attributes(file, ATTRIBUTES, path)
    _check_names(file, TOP_LEVEL, path)
    where = f"{path}: {HEADER}"
    dataset = _member({"": file}, HEADER, h5py.Dataset, path)
    with reading_hdf5(where, failure=StoreError):
        size = dataset.size or 0
    if size > MAX_JSON_BYTES:
        raise StoreError(
            f"{where}: {byte_size(size, up=True)}; at most {byte_size(MAX_JSON_BYTES)} are allowed"
        )
    _check_dataset(dataset, np.dtype("u1"), (size,), None, where)
    with reading_hdf5(where, failure=StoreError):
        text = dataset[()].tobytes()
    if hashlib.sha256(text).hexdigest().encode() != _attribute(file, "header_sha256", path):
        raise StoreError(f"{where}: does not match header_sha256; the file is damaged")
    content = parse_json(text, where)
    if canonical_json(content).encode(errors="surrogatepass") != text:
        raise StoreError(f"{where}: not canonical JSON; write the store with repalign")
    return parse_header(content, where)


def _attribute(file: Any, name: str, path: str) -> Any:
    """Return a small scalar attribute of the file."""
    where = f"{path}: attribute {name}"
    with reading_hdf5(where, failure=StoreError):
        is_there = h5py.h5a.exists(file.id, name.encode())
    if not is_there:
        raise StoreError(f"{where} is missing; not a {FORMAT} file, or damaged")
    with reading_hdf5(where, failure=StoreError):
        attribute = h5py.h5a.open(file.id, name.encode())
        kind, shape = attribute.get_type(), attribute.shape
        is_number = kind.get_class() == h5py.h5t.INTEGER
        is_text = kind.get_class() == h5py.h5t.STRING and not kind.is_variable_str()
        n_bytes = kind.get_size()
    if not (is_number or is_text) or n_bytes > 128 or shape != ():
        raise StoreError(f"{where} is not a short text or number; the file is damaged")
    with reading_hdf5(where, failure=StoreError):
        return file.attrs[name]


def check_sizes(header: Header, size: int, path: str) -> None:
    """Refuse headers that declare more than the file can hold.

    Raises:
        StoreError: the declared rows do not fit into a file of ``size`` bytes.
    """
    n_bytes = sum(column.row_bytes for column in header.columns) * header.n_rows
    if n_bytes > size:
        raise StoreError(
            f"{path}: {header.n_rows} rows need {n_bytes} bytes, the file has {size}; it is damaged"
        )


def _check_structure(file: Any, header: Header, path: str) -> None:
    """Compare every object of the file with the header."""
    views = {view.name for view in header.description.views}
    columns = set(header.index.columns)
    members = {
        EMBEDDINGS: views,
        INDEX: columns,
        DIGESTS: {EMBEDDINGS, INDEX},
        f"{DIGESTS}/{EMBEDDINGS}": views,
        f"{DIGESTS}/{INDEX}": columns,
    }
    groups = {"": file}
    for name, expected in members.items():
        groups[name] = _member(groups, name, h5py.Group, path)
        _check_names(groups[name], expected, f"{path}: {name}")
    for column in header.columns:
        dataset = _member(groups, column.path, h5py.Dataset, path)
        shape, chunks = column.shape(header.n_rows), column.chunks(header.n_rows)
        _check_dataset(dataset, column.dtype, shape, chunks, f"{path}: {column.path}")
        name = f"{DIGESTS}/{column.path}"
        table = _member(groups, name, h5py.Dataset, path)
        shape = (column.n_leaves(header.n_rows), DIGEST_BYTES)
        _check_dataset(table, np.dtype("u1"), shape, None, f"{path}: {name}")


def _check_attributes(item: Any, allowed: frozenset[str], where: str) -> None:
    """Refuse unknown attributes; a million of them are not listed."""
    with reading_hdf5(where, failure=StoreError):
        has_more = h5py.h5a.get_num_attrs(item.id) > len(allowed)
        names = iter(item.attrs) if has_more else iter(())
        extra = next((name for name in names if name not in allowed), "")
    if has_more:
        raise StoreError(f"{where}: unknown attribute {extra[:64]!r}; not part of this format")


def _check_names(group: Any, expected: set[str] | frozenset[str], where: str) -> None:
    """Refuse missing and unknown names; a group of millions is not listed."""
    with reading_hdf5(where, failure=StoreError):
        has_more = len(group) > len(expected)
        extra = next((name for name in group if name not in expected), "") if has_more else ""
        names = set() if has_more else set(group)
    if has_more:
        raise StoreError(f"{where}: unknown name {extra[:64]!r}; not part of this format")
    missing = sorted(expected - names)
    if missing:
        raise StoreError(f"{where}: {missing[0]!r} is missing; the file is damaged")


def _member(groups: Mapping[str, Any], name: str, kind: type, path: str) -> Any:
    """Return a member of the expected kind, reached by a hard link.

    Args:
        groups: those on the way, by name; the file has the name "".
        name: of the member, such as ``digests/emb``.
        kind: group or dataset.
        path: the file, for messages.
    """
    where = f"{path}: {name}"
    parent, _, last = name.rpartition("/")
    with reading_hdf5(where, failure=StoreError):
        link = groups[parent].id.links.get_info(last.encode()).type
    if link != h5py.h5l.TYPE_HARD:
        link_kind = _LINKS.get(link, "a link of an unknown type")
        raise StoreError(f"{where}: is {link_kind}; a store holds all its data itself")
    with reading_hdf5(where, failure=StoreError):
        member = groups[parent][last]
    if not isinstance(member, kind):
        raise StoreError(f"{where}: is a {type(member).__name__}, expected a {kind.__name__}")
    _check_attributes(member, frozenset(), where)
    return member


def _check_dataset(
    dataset: Any,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    chunks: tuple[int, ...] | None,
    where: str,
) -> None:
    """Refuse data outside the file, other types and shapes, and another layout.

    Args:
        dataset: the dataset.
        dtype: its type.
        shape: its shape, which is fixed.
        chunks: shape of its chunks; None where it is contiguous.
        where: its name, for messages.
    """
    properties = check_stored_inside(dataset, where, failure=StoreError)
    with reading_hdf5(where, failure=StoreError):
        kind = dataset.id.get_type()
        is_committed = kind.committed()
        is_expected = kind.equal(h5py.h5t.py_create(dtype, logical=True))
        stored_shape, largest, stored_chunks = dataset.shape, dataset.maxshape, dataset.chunks
        n_filters = properties.get_nfilters()
        n_bytes = dataset.id.get_storage_size() if stored_chunks is None else None
    if is_committed:
        raise StoreError(f"{where}: has a committed type; expected a plain {dtype}")
    if not is_expected:
        raise StoreError(f"{where}: its type is not {dtype}; the file is damaged")
    if largest != stored_shape:
        raise StoreError(f"{where}: can grow to {largest}; expected a fixed shape")
    if stored_shape != shape:
        raise StoreError(f"{where}: shape is {stored_shape}, expected {shape}; file is damaged")
    if chunks is None and n_bytes != math.prod(shape) * dtype.itemsize:
        raise StoreError(f"{where}: is not stored contiguously; the file is damaged")
    if chunks is not None and stored_chunks != chunks:
        raise StoreError(f"{where}: chunks are {stored_chunks}, expected {chunks}")
    if n_filters:
        raise StoreError(f"{where}: is compressed or filtered; expected plain values")
