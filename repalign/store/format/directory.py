"""A store as a directory of immutable shards: its description, its manifest, its removal.

A shard is a file that describes itself, and it gets its name by a rename when it is whole. So the
manifest can always be derived from the shards present, and several writers that own different
numbers need not know of each other.
"""

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repalign.exceptions import StoreError
from repalign.store.format.header import (
    Description,
    Header,
    IndexLayout,
    check_version,
    parse_description,
    parse_index_layout,
    take,
    take_sha256,
)
from repalign.store.format.schema import (
    DESCRIPTION,
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    PARTS_SUFFIX,
    SHARD_NAME,
)
from repalign.store.format.sealed_json import read_sealed, sync_file, write_sealed
from repalign.store.reading.safety import open_checked

_VERSION = {"format": FORMAT, "format_version": FORMAT_VERSION}


@dataclass(frozen=True)
class ShardRecord:
    """What the manifest says of a shard.

    Args:
        number: place among the shards, from 0.
        n_rows: number of rows.
        n_bytes: size of the file.
        content_sha256: fingerprint of its rows: a sha256 over the digests of all values.
    """

    number: int
    n_rows: int
    n_bytes: int
    content_sha256: str

    @property
    def file(self) -> str:
        """Name of the file."""
        return shard_name(self.number)


@dataclass(frozen=True)
class DirectoryContent:
    """What a directory store declares.

    Args:
        description: how the rows were made.
        index: columns of the row index; None before the first shard.
        shards: committed shards from number 0 on, without a gap.
        n_shards: planned number of shards, if it was given.
        is_complete: whether no shard is to come.
        fingerprint: fingerprint of all rows, if there is a manifest.
        replaces: identity of the packed file that was there when the shards were begun.
    """

    description: Description
    index: IndexLayout | None
    shards: tuple[ShardRecord, ...]
    n_shards: int | None
    is_complete: bool
    fingerprint: str | None
    replaces: str | None = None


def parts_directory(path: Path) -> Path:
    """Return where the shards of a store lie while it is written.

    A store that is to become one file has them beside it, in ``<name>.h5.parts``.
    """
    return path.with_name(path.name + PARTS_SUFFIX) if path.suffix == ".h5" else path


def begin_directory(
    path: Path, description: Description, n_shards: int | None, replaces: str | None
) -> None:
    """Create a directory store without shards."""
    path.mkdir(parents=True, exist_ok=True)
    plan = {"n_shards": n_shards, "replaces": replaces}
    write_sealed(path / DESCRIPTION, _VERSION | description.to_json() | plan)


def is_unused(path: Path) -> bool:
    """Return whether a directory holds nothing but what a killed writer left before beginning."""
    return all(_is_temporary(entry.name) for entry in path.iterdir())


def is_finished(path: Path) -> bool:
    """Return whether a store is complete: a file whose shards are gone, or a manifest."""
    # a file alone tells nothing: it may be the old one that is being replaced
    is_packed = path.is_file() and not parts_directory(path).exists()
    return is_packed or (path / MANIFEST).is_file()


def file_identity(path: Path) -> str | None:
    """Return what tells a file from the one that replaces it, or None if there is none."""
    if not path.exists():
        return None
    status = path.stat()
    return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"


def write_manifest(
    path: Path,
    description: Description,
    index: IndexLayout,
    shards: Iterable[ShardRecord],
    fingerprint: str,
) -> None:
    """Write the manifest that makes a directory store complete."""
    content = _VERSION | description.to_json()
    content |= {
        "index": list(index.columns),
        "id_bytes": index.id_bytes,
        "shards": [
            {
                "file": shard.file,
                "n_rows": shard.n_rows,
                "n_bytes": shard.n_bytes,
                "content_sha256": shard.content_sha256,
            }
            for shard in shards
        ],
        "fingerprint": fingerprint,
    }
    write_sealed(path / MANIFEST, content)


def read_directory(path: Path) -> DirectoryContent:
    """Return what a directory store declares, from its manifest or from the shards present.

    Raises:
        StoreError: not a directory store, or a damaged one.
    """
    if (path / MANIFEST).is_file() or (path / MANIFEST).is_symlink():
        return _read_manifest(path)
    if not (path / DESCRIPTION).exists():
        raise StoreError(f"{path}: no {MANIFEST} and no {DESCRIPTION}; not a store")
    where = str(path / DESCRIPTION)
    content = read_sealed(path / DESCRIPTION)
    _check_version(content, where)
    description = parse_description(content, where)
    n_shards = take(content, "n_shards", (int, type(None)), where)
    shards: list[ShardRecord] = []
    index: IndexLayout | None = None
    for expected, number in enumerate(committed_numbers(path)):
        if number != expected:
            break
        record, header = read_shard_header(path, number)
        index = _join_layouts(index or header.index, header.index, path / record.file)
        shards.append(record)
    is_complete = n_shards is not None and len(shards) == n_shards
    replaces = take(content, "replaces", (str, type(None)), where)
    return DirectoryContent(
        description, index, tuple(shards), n_shards, is_complete, None, replaces
    )


def remove_directory(path: Path) -> None:
    """Remove a directory store: only what this format puts there, never anything else.

    Raises:
        StoreError: the directory holds other files.
    """
    is_store = (path / DESCRIPTION).exists() or (path / MANIFEST).exists()
    if not is_store and not is_unused(path):
        raise StoreError(f"{path}: not a store; nothing was removed")
    others = [entry.name for entry in path.iterdir() if not _is_store_file(entry.name)]
    if others:
        raise StoreError(f"{path}: also holds {others[0]!r}; move it away, nothing was removed")
    # the description goes last, so that an interrupted removal can be repeated
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name == DESCRIPTION):
        entry.unlink()
    path.rmdir()


def remove_leftovers(path: Path) -> None:
    """Remove the unfinished files of writers that were killed; no writer may be active."""
    for entry in path.iterdir():
        if _is_temporary(entry.name):
            entry.unlink(missing_ok=True)


def _is_store_file(name: str) -> bool:
    """Return whether a name is one that this format gives."""
    is_known = SHARD_NAME.fullmatch(name) or name in {DESCRIPTION, MANIFEST}
    return bool(is_known) or _is_temporary(name)


def _is_temporary(name: str) -> bool:
    """Return whether a name is that of an unfinished file."""
    return name.startswith(".") and name.endswith(".tmp")


def _join_layouts(first: IndexLayout, other: IndexLayout, shard: Path) -> IndexLayout:
    """Return the index layout of two shards of one store, which have the same columns."""
    if first.columns != other.columns:
        raise StoreError(
            f"{shard}: index columns are {', '.join(other.columns)}, those of the shards before "
            f"are {', '.join(first.columns)}; all shards of a store have the same"
        )
    return IndexLayout(first.columns, max(first.id_bytes, other.id_bytes))


def _read_manifest(path: Path) -> DirectoryContent:
    """Return what the manifest of a complete directory store declares."""
    where = str(path / MANIFEST)
    content = read_sealed(path / MANIFEST)
    _check_version(content, where)
    shards = []
    for number, entry in enumerate(take(content, "shards", list, where)):
        inside = f"{where}: shards: {number}"
        if not isinstance(entry, dict):
            raise StoreError(f"{inside}: not a JSON object; the file is damaged")
        shards.append(parse_record(entry, number, inside))
    if not shards:
        raise StoreError(f"{where}: key 'shards' is empty; the file is damaged")
    return DirectoryContent(
        description=parse_description(content, where),
        index=parse_index_layout(content, where),
        shards=tuple(shards),
        n_shards=len(shards),
        is_complete=True,
        fingerprint=take_sha256(content, "fingerprint", where),
    )


def _check_version(content: Mapping[str, Any], where: str) -> None:
    """Refuse other formats and versions."""
    if content.get("format") != FORMAT:
        raise StoreError(f"{where}: not a {FORMAT}")
    check_version(take(content, "format_version", int, where), where)


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return f"part-{number:05d}.h5"


def committed_numbers(path: Path) -> list[int]:
    """Return the numbers of the shards that are present, sorted."""
    matches = (SHARD_NAME.fullmatch(entry.name) for entry in path.iterdir())
    return sorted(int(match.group(1)) for match in matches if match)


def commit_shard(path: Path, temporary: Path, number: int) -> None:
    """Make a finished file durable and give it its name: from here on it is part of the store."""
    sync_file(temporary)
    temporary.replace(path / shard_name(number))
    sync_file(path)


def read_shard_header(path: Path, number: int) -> tuple[ShardRecord, Header]:
    """Return the record and the header of a shard, from the shard itself.

    Raises:
        StoreError: it is a link, damaged, or the shard of another number.
    """
    shard = path / shard_name(number)
    n_bytes = _regular_size(shard)
    file, header = open_checked(shard)
    file.close()
    if header.shard != number:
        raise StoreError(f"{shard}: its header says shard {header.shard}; it was renamed")
    return ShardRecord(number, header.n_rows, n_bytes, header.fingerprint), header


def check_shard(path: Path, record: ShardRecord) -> Path:
    """Return the path of a shard after checking that it is a file of the recorded size.

    Raises:
        StoreError: missing, a symbolic link, or of another size.
    """
    shard = path / record.file
    n_bytes = _regular_size(shard)
    if n_bytes != record.n_bytes:
        raise StoreError(
            f"{shard}: has {n_bytes} bytes, the manifest says {record.n_bytes}; it is damaged: "
            "restore it from a copy or write it again"
        )
    return shard


def parse_record(content: Mapping[str, Any], number: int, where: str) -> ShardRecord:
    """Return the record of a shard from the manifest.

    Raises:
        StoreError: values that no shard has, or a file of another name.
    """
    record = ShardRecord(
        number=number,
        n_rows=take(content, "n_rows", int, where),
        n_bytes=take(content, "n_bytes", int, where),
        content_sha256=take_sha256(content, "content_sha256", where),
    )
    if record.n_rows < 1:
        raise StoreError(f"{where}: key 'n_rows' is {record.n_rows}; expected 1 or more")
    # the name is checked, not used: it could lead out of the directory
    if content.get("file") != record.file:
        got = str(content.get("file"))[:64]
        raise StoreError(f"{where}: key 'file' is {got!r}, expected {record.file!r}")
    return record


def _regular_size(shard: Path) -> int:
    """Return the size of a shard, which must lie in the directory itself."""
    try:
        status = shard.lstat()
    except OSError as error:
        raise StoreError(f"{shard}: cannot be opened ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{shard}: is a link or no regular file; shards must lie in the directory")
    return status.st_size
