"""One shard of a directory store: its name, its record in the manifest, its commit.

A shard is a file that describes itself, and it gets its name by a rename when it is whole. So the
manifest can always be derived from the shards present, and several writers that own different
numbers need not know of each other.
"""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repalign.exceptions import StoreError
from repalign.store.format.header import Header
from repalign.store.format.layout import take, take_sha256
from repalign.store.format.schema import SHARD_NAME
from repalign.store.format.sealed_json import sync_file
from repalign.store.reading.safety import open_checked


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


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return f"part-{number:05d}.h5"


def committed_numbers(path: Path) -> list[int]:
    """Return the numbers of the shards that are present, sorted."""
    found = (SHARD_NAME.fullmatch(entry.name) for entry in path.iterdir())
    return sorted(int(match.group(1)) for match in found if match)


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
