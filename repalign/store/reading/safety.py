"""Opening an HDF5 file that may be damaged or hostile: nothing unexpected is followed or read.

A file is accepted when it has exactly the objects that its sealed header describes, each reached
by a hard link, stored inside the file, of the expected type, shape, chunks and filters.
"""

import hashlib
import math
import stat
from pathlib import Path
from typing import Any

import numpy as np

from repalign.exceptions import StoreError
from repalign.printable import byte_size
from repalign.store.format.hdf5 import check_stored_inside, h5py, reading_hdf5
from repalign.store.format.header import Header, check_version, parse_header
from repalign.store.format.schema import (
    DIGEST_BYTES,
    DIGESTS,
    EMBEDDINGS,
    FORMAT,
    HEADER,
    INDEX,
    MAX_JSON_BYTES,
    TOP_LEVEL,
    Column,
)
from repalign.store.format.sealed_json import canonical_json, parse_json

ATTRIBUTES = frozenset({"format", "format_version", "header_sha256"})
_LINKS = {h5py.h5l.TYPE_SOFT: "a soft link", h5py.h5l.TYPE_EXTERNAL: "an external link"}


def open_checked(path: Path) -> tuple[Any, Header]:
    """Open one file of a store and return it with its header, both checked.

    Raises:
        StoreError: the file is missing, damaged, hostile, or of another format or version.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise StoreError(f"{path}: cannot be opened ({error.strerror})") from error
    # opening a pipe would wait for ever
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path}: not a regular file; give a store written by repalign")
    with reading_hdf5(path, failure=StoreError):
        # Files are never changed once they have their name: no lock is needed, and network
        # file systems often have none.
        file = h5py.File(path, "r", locking=False)
    try:
        header = _read_header(file, str(path))
        check_sizes(header, status.st_size, str(path))
        _check_structure(file, header, str(path))
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
        raise StoreError(f"{path}: format_version is {version!r}, no number; the file is damaged")
    check_version(int(version), path)
    with reading_hdf5(path, failure=StoreError):
        n_user_bytes = file.userblock_size
    if n_user_bytes:
        raise StoreError(f"{path}: has a user block of {n_user_bytes} bytes; expected none")
    _check_attributes(file, ATTRIBUTES, path)
    _check_names(file, TOP_LEVEL, path)
    where = f"{path}: {HEADER}"
    dataset = _member(file, HEADER, h5py.Dataset, where)
    with reading_hdf5(where, failure=StoreError):
        size = dataset.size or 0
    if size > MAX_JSON_BYTES:
        raise StoreError(
            f"{where}: {byte_size(size, up=True)}; at most {byte_size(MAX_JSON_BYTES)} are allowed"
        )
    _check_plain(dataset, np.dtype("u1"), (size,), where)
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
    groups = {name: _member(file, name, h5py.Group, f"{path}: {name}") for name in _GROUPS}
    digests = groups[DIGESTS]
    _check_names(groups[EMBEDDINGS], views, f"{path}: {EMBEDDINGS}")
    _check_names(groups[INDEX], columns, f"{path}: {INDEX}")
    _check_names(digests, {EMBEDDINGS, INDEX}, f"{path}: {DIGESTS}")
    for part, names in ((EMBEDDINGS, views), (INDEX, columns)):
        where = f"{path}: {DIGESTS}/{part}"
        _check_names(_member(digests, part, h5py.Group, where), names, where)
    for column in header.columns:
        group, name = column.path.split("/")
        where = f"{path}: {column.path}"
        _check_rows(_member(groups[group], name, h5py.Dataset, where), column, header, where)
        where = f"{path}: {DIGESTS}/{column.path}"
        table = _member(digests[group], name, h5py.Dataset, where)
        shape = (column.n_leaves(header.n_rows), DIGEST_BYTES)
        _check_plain(table, np.dtype("u1"), shape, where)


_GROUPS = (EMBEDDINGS, INDEX, DIGESTS)


def _check_attributes(item: Any, allowed: frozenset[str], where: str) -> None:
    """Refuse attributes that are not part of the format; a million of them are not listed."""
    with reading_hdf5(where, failure=StoreError):
        has_more = h5py.h5a.get_num_attrs(item.id) > len(allowed)
        names = iter(item.attrs) if has_more else iter(())
        extra = next((name for name in names if name not in allowed), "")
    if has_more:
        raise StoreError(f"{where}: unknown attribute {extra[:64]!r}; not part of this format")


def _check_names(group: Any, expected: set[str] | frozenset[str], where: str) -> None:
    """Refuse missing and unknown names; a group of millions is not even listed."""
    with reading_hdf5(where, failure=StoreError):
        has_more = len(group) > len(expected)
        extra = next((name for name in group if name not in expected), "") if has_more else ""
        names = set() if has_more else set(group)
    if has_more:
        raise StoreError(f"{where}: unknown name {extra[:64]!r}; not part of this format")
    missing = sorted(expected - names)
    if missing:
        raise StoreError(f"{where}: {missing[0]!r} is missing; the file is damaged")


def _member(group: Any, name: str, kind: type, where: str) -> Any:
    """Return a member that is reached by a hard link and is of the expected kind."""
    with reading_hdf5(where, failure=StoreError):
        link = group.id.links.get_info(name.encode()).type
    if link != h5py.h5l.TYPE_HARD:
        link_kind = _LINKS.get(link, "a link of an unknown type")
        raise StoreError(f"{where}: is {link_kind}; a store holds all its data itself")
    with reading_hdf5(where, failure=StoreError):
        member = group[name]
    if not isinstance(member, kind):
        raise StoreError(f"{where}: is a {type(member).__name__}, expected a {kind.__name__}")
    _check_attributes(member, frozenset(), where)
    return member


def _check_type(dataset: Any, dtype: np.dtype[Any], where: str) -> Any:
    """Refuse data outside the file and other types; return the creation properties."""
    properties = check_stored_inside(dataset, where, failure=StoreError)
    with reading_hdf5(where, failure=StoreError):
        kind = dataset.id.get_type()
        is_committed = kind.committed()
        is_expected = kind.equal(h5py.h5t.py_create(dtype, logical=True))
    if is_committed:
        raise StoreError(f"{where}: has a committed type; expected a plain {dtype}")
    if not is_expected:
        raise StoreError(f"{where}: its type is not {dtype}; the file is damaged")
    return properties


def _check_plain(dataset: Any, dtype: np.dtype[Any], shape: tuple[int, ...], where: str) -> None:
    """Check a small dataset that lies in one piece."""
    properties = _check_type(dataset, dtype, where)
    with reading_hdf5(where, failure=StoreError):
        stored_shape, layout = dataset.shape, properties.get_layout()
        n_bytes = dataset.id.get_storage_size()
    if stored_shape != shape:
        raise StoreError(f"{where}: shape is {stored_shape}, expected {shape}; file is damaged")
    in_one_piece = layout in {h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT}
    if not in_one_piece or n_bytes != math.prod(shape) * dtype.itemsize:
        raise StoreError(f"{where}: is not stored in one piece; the file is damaged")


def _check_rows(dataset: Any, column: Column, header: Header, where: str) -> None:
    """Check a dataset of rows."""
    properties = _check_type(dataset, column.dtype, where)
    shape = column.shape(header.n_rows)
    with reading_hdf5(where, failure=StoreError):
        stored_shape, largest, stored_chunks = dataset.shape, dataset.maxshape, dataset.chunks
        n_filters = properties.get_nfilters()
    if largest != stored_shape:
        raise StoreError(f"{where}: can grow to {largest}; expected a fixed shape")
    if stored_shape != shape:
        raise StoreError(f"{where}: shape is {stored_shape}, expected {shape}; file is damaged")
    chunks = column.chunks(header.n_rows)
    if stored_chunks != chunks:
        raise StoreError(f"{where}: chunks are {stored_chunks}, expected {chunks}")
    if n_filters:
        raise StoreError(f"{where}: is compressed or filtered; expected plain values")
