"""A store as a directory of immutable shards: description, manifest, removal.

A shard is a file that describes itself, and it gets its name by a rename when it is whole. So the
manifest can always be derived from the shards present, and several writers that own different
numbers need not know of each other.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from repalign.exceptions import StoreError
from repalign.files import sync_file
from repalign.printable import byte_size
from repalign.store.digests import canonical_json, sha256_of
from repalign.store.format import (
    DESCRIPTION,
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    MAX_JSON_BYTES,
    PARTS_SUFFIX,
    SHARD_NAME,
)
from repalign.store.hdf5 import file_size, open_checked
from repalign.store.header import (
    Description,
    IndexLayout,
    check_version,
    parse_description,
    parse_index_layout,
    parse_json,
    take,
    take_sha256,
)

VERSION = {"format": FORMAT, "format_version": FORMAT_VERSION}


@dataclass(frozen=True)
class ShardRecord:
    """Entry of a shard in the manifest.

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

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        values = asdict(self)
        return {"file": shard_name(values.pop("number")), **values}


@dataclass(frozen=True)
class DirectoryContent:
    """Description, index layout and shards of a directory store.

    Args:
        description: how the rows were made.
        index: columns of the row index; None before the first shard.
        shards: committed shards from number 0 on, without a gap.
        is_complete: whether no shard is to come.
        n_shards: planned number of shards of an unfinished store, if it was given.
        fingerprint: fingerprint of all rows, if there is a manifest.
        replaces: identity of the packed file that was there when the shards were begun.
    """

    description: Description
    index: IndexLayout | None
    shards: tuple[ShardRecord, ...]
    is_complete: bool
    n_shards: int | None = None
    fingerprint: str | None = None
    replaces: str | None = None


def parts_directory(path: Path) -> Path:
    """Return where the shards of a store lie while it is written.

    A store that is to become one file has them next to it, in ``<name>.h5.parts``.
    """
    return path.with_name(path.name + PARTS_SUFFIX) if path.suffix == ".h5" else path


def is_unused(path: Path) -> bool:
    """Return whether a directory holds only temporary files of a killed writer."""
    return all(_is_temporary(entry.name) for entry in path.iterdir())


def is_finished(path: Path) -> bool:
    """Return whether a store is packed, its shards removed, or has a manifest."""
    # a file alone may be the old one that is being replaced
    is_packed = path.is_file() and not parts_directory(path).exists()
    return is_packed or (path / MANIFEST).is_file()


def file_identity(path: Path) -> str | None:
    """Return inode, time and size of a file, None if it does not exist."""
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
    content = VERSION | description.to_json()
    content |= {
        "index": list(index.columns),
        "id_bytes": index.id_bytes,
        "shards": [shard.to_json() for shard in shards],
        "fingerprint": fingerprint,
    }
    write_sealed(path / MANIFEST, content)


def read_directory(path: Path) -> DirectoryContent:
    """Read a directory store, from its manifest or from the shards present.

    Raises:
        StoreError: not a directory store, or a damaged one.
    """
    has_manifest = (path / MANIFEST).is_file() or (path / MANIFEST).is_symlink()
    if not has_manifest and not (path / DESCRIPTION).exists():
        raise StoreError(f"{path}: no {MANIFEST} and no {DESCRIPTION}; not a store")
    file = path / (MANIFEST if has_manifest else DESCRIPTION)
    where = str(file)
    content = read_sealed(file)
    if content.get("format") != FORMAT:
        raise StoreError(f"{where}: not a {FORMAT}")
    check_version(take(content, "format_version", int, where), where)
    description = parse_description(content, where)
    if has_manifest:
        return DirectoryContent(
            description=description,
            index=parse_index_layout(content, where),
            shards=_parse_shards(content, where),
            is_complete=True,
            fingerprint=take_sha256(content, "fingerprint", where),
        )
    index, shards = _read_shards(path)
    n_shards = take(content, "n_shards", (int, type(None)), where)
    return DirectoryContent(
        description=description,
        index=index,
        shards=shards,
        n_shards=n_shards,
        is_complete=len(shards) == n_shards,
        replaces=take(content, "replaces", (str, type(None)), where),
    )


def _parse_shards(content: Mapping[str, Any], where: str) -> tuple[ShardRecord, ...]:
    """Return the shards that a manifest lists."""
    shards = []
    for number, entry in enumerate(take(content, "shards", list, where)):
        inside = f"{where}: shards: {number}"
        if not isinstance(entry, dict):
            raise StoreError(f"{inside}: not a JSON object; the file is damaged")
        record = ShardRecord(
            number=number,
            n_rows=take(entry, "n_rows", int, inside),
            n_bytes=take(entry, "n_bytes", int, inside),
            content_sha256=take_sha256(entry, "content_sha256", inside),
        )
        if record.n_rows < 1:
            raise StoreError(f"{inside}: key 'n_rows' is {record.n_rows}; expected 1 or more")
        # the name is checked, not used: it could lead out of the directory
        if entry.get("file") != shard_name(number):
            got = str(entry.get("file"))[:64]
            raise StoreError(f"{inside}: key 'file' is {got!r}, expected {shard_name(number)!r}")
        shards.append(record)
    if not shards:
        raise StoreError(f"{where}: key 'shards' is empty; the file is damaged")
    return tuple(shards)


def _read_shards(path: Path) -> tuple[IndexLayout | None, tuple[ShardRecord, ...]]:
    """Return index layout and records of the shards up to the first gap."""
    index: IndexLayout | None = None
    shards = []
    for number, present in enumerate(committed_numbers(path)):
        if number != present:
            break
        shard = path / shard_name(number)
        file, header = open_checked(shard, shard=number)
        file.close()
        columns = header.index.columns
        if index is not None and columns != index.columns:
            raise StoreError(
                f"{shard}: index columns are {', '.join(columns)}, those of the shards before "
                f"are {', '.join(index.columns)}; all shards of a store have the same"
            )
        id_bytes = max(header.index.id_bytes, 0 if index is None else index.id_bytes)
        index = IndexLayout(columns, id_bytes)
        n_bytes = file_size(shard, follow_links=False)
        shards.append(ShardRecord(number, header.n_rows, n_bytes, header.fingerprint))
    return index, tuple(shards)


def remove_directory(path: Path) -> None:
    """Remove a directory store, but no file of another kind.

    Raises:
        StoreError: the directory holds other files.
    """
    is_store = (path / DESCRIPTION).exists() or (path / MANIFEST).exists()
    if not is_store and not is_unused(path):
        raise StoreError(f"{path}: not a store; nothing was removed")
    for name in (entry.name for entry in path.iterdir()):
        is_shard = SHARD_NAME.fullmatch(name) is not None
        if not (is_shard or name in {DESCRIPTION, MANIFEST} or _is_temporary(name)):
            raise StoreError(f"{path}: also holds {name!r}; move it away, nothing was removed")
    # the description goes last, so that an interrupted removal can be repeated
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name == DESCRIPTION):
        entry.unlink()
    path.rmdir()


def remove_leftovers(path: Path) -> None:
    """Remove temporary files of killed writers; no writer may be active."""
    for entry in path.iterdir():
        if _is_temporary(entry.name):
            entry.unlink(missing_ok=True)


def _is_temporary(name: str) -> bool:
    """Return whether a name is that of an unfinished file."""
    return name.startswith(".") and name.endswith(".tmp")


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return f"part-{number:05d}.h5"


def committed_numbers(path: Path) -> list[int]:
    """Return the numbers of the shards that are present, sorted."""
    matches = (SHARD_NAME.fullmatch(entry.name) for entry in path.iterdir())
    return sorted(int(match.group(1)) for match in matches if match)


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` with its checksum, replacing the file in one step."""
    text = canonical_json(content)
    sealed = json.dumps({"sha256": sha256_of(text), "content": json.loads(text)}, indent=1)
    temporary = temporary_path(path)
    with temporary.open("xb") as file:
        file.write(sealed.encode())
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_file(path.parent)


def read_sealed(path: Path) -> dict[str, Any]:
    """Return the content of a file of :func:`write_sealed`.

    Raises:
        StoreError: a file that is missing, a link, too large, or not what was written.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            text = file.read(MAX_JSON_BYTES + 1)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from error
    if len(text) > MAX_JSON_BYTES:
        raise StoreError(f"{path}: larger than {byte_size(MAX_JSON_BYTES)}; not a file of a store")
    sealed = parse_json(text, str(path))
    content = sealed.get("content")
    if not isinstance(content, dict):
        raise StoreError(f"{path}: key 'content' is missing; the file is damaged")
    if sha256_of(canonical_json(content)) != sealed.get("sha256"):
        raise StoreError(f"{path}: key 'content' does not match its sha256; the file is damaged")
    return content


def temporary_path(path: Path) -> Path:
    """Return a hidden name next to ``path`` that no other writer uses."""
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
