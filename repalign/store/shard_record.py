"""One shard of a directory store: its record, and the rename that commits it.

A record (size, sha256, rows) is written before the shard gets its name; so a shard that is
present is whole, and several writers that own different numbers need not know of each other.
"""

import hashlib
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from repalign.exceptions import StoreError
from repalign.store.layout import IndexLayout, parse_index_layout, take, take_sha256
from repalign.store.schema import SHARD_NAME
from repalign.store.sealed_json import read_sealed, sync_file, write_sealed


@dataclass(frozen=True)
class ShardRecord:
    """What is known of a committed shard without opening it.

    Args:
        number: place among the shards, from 0.
        n_rows: number of rows.
        n_bytes: size of the file.
        sha256: checksum of the file.
        fingerprint: fingerprint of its rows.
    """

    number: int
    n_rows: int
    n_bytes: int
    sha256: str
    fingerprint: str

    @property
    def file(self) -> str:
        """Name of the file."""
        return shard_name(self.number)


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return f"part-{number:05d}.h5"


def write_record(path: Path, record: ShardRecord, index: IndexLayout) -> None:
    """Write the record of a shard that is about to be committed."""
    content = asdict(record) | {"index": list(index.columns), "id_bytes": index.id_bytes}
    write_sealed((path / record.file).with_suffix(".json"), content)


def commit_shard(path: Path, temporary: Path, number: int) -> None:
    """Give a finished file its name; from here on it is part of the store."""
    temporary.replace(path / shard_name(number))
    sync_file(path)


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def committed_numbers(path: Path) -> list[int]:
    """Return the numbers of the shards that are present, sorted."""
    found = (SHARD_NAME.fullmatch(entry.name) for entry in path.iterdir())
    numbers = (int(match.group(1)) for match in found if match)
    return sorted(numbers)


def read_record(path: Path, number: int) -> tuple[ShardRecord, IndexLayout]:
    """Return the record of a committed shard and the index columns of its rows.

    Raises:
        StoreError: the record is missing or damaged.
    """
    where = (path / shard_name(number)).with_suffix(".json")
    content = read_sealed(where)
    record = parse_record(content, str(where))
    if record.number != number:
        raise StoreError(f"{where}: key 'number' is {record.number}; expected {number}")
    return record, parse_index_layout(content, str(where))


def join_layouts(first: IndexLayout, other: IndexLayout, path: Path, number: int) -> IndexLayout:
    """Return the index layout of two shards of one store.

    Raises:
        StoreError: they have different columns.
    """
    if first.columns != other.columns:
        raise StoreError(
            f"{path / shard_name(number)}: index columns are {', '.join(other.columns)}, those of "
            f"shard 0 are {', '.join(first.columns)}; all shards of a store have the same"
        )
    return IndexLayout(first.columns, max(first.id_bytes, other.id_bytes))


def check_shard(path: Path, record: ShardRecord) -> Path:
    """Return the path of a shard after checking that it is a file of the recorded size.

    Raises:
        StoreError: missing, a symbolic link, or of another size.
    """
    shard = path / record.file
    try:
        status = shard.lstat()
    except OSError as error:
        raise StoreError(f"{shard}: cannot be opened ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{shard}: is a link or no regular file; shards must lie in the directory")
    if status.st_size != record.n_bytes:
        raise StoreError(
            f"{shard}: has {status.st_size} bytes, its record says {record.n_bytes}; it is "
            "damaged: delete it and continue writing, or restore it from a copy"
        )
    return shard


def check_sha256(directory: Path, record: ShardRecord) -> None:
    """Compare a shard with its recorded checksum.

    Raises:
        StoreError: it is missing, or not the file that was committed.
    """
    path = check_shard(directory, record)
    if file_sha256(path) != record.sha256:
        raise StoreError(
            f"{path}: does not match its sha256; it is damaged: delete it and continue writing, or "
            "restore it from a copy"
        )


def parse_record(content: Mapping[str, Any], where: str) -> ShardRecord:
    """Return the record of a shard from parsed JSON."""
    record = ShardRecord(
        number=take(content, "number", int, where),
        n_rows=take(content, "n_rows", int, where),
        n_bytes=take(content, "n_bytes", int, where),
        sha256=take_sha256(content, "sha256", where),
        fingerprint=take_sha256(content, "fingerprint", where),
    )
    if record.number < 0 or record.n_rows < 1:
        raise StoreError(f"{where}: {record.n_rows} rows in shard {record.number}; it is damaged")
    return record
