"""The user's files: found and identified; images or sounds that are a file each."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repalign.data.samples import Sample, Sound
from repalign.exceptions import InputError, reading
from repalign.files import open_regular
from repalign.printable import byte_size

if TYPE_CHECKING:
    from PIL.Image import Image


def find_files(root: Path, endings: Collection[str]) -> list[Path]:
    """All files below a directory with one of the endings, ordered by relative path.

    Hidden files and links that leave the directory are left out.

    Raises InputError when there are none.
    """
    inside = root.resolve()
    found = [
        path
        for path in root.rglob("*")
        if path.suffix.lower() in endings
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
        and path.resolve().is_relative_to(inside)
    ]
    if not found:
        raise InputError(
            f"no files to read in {root.name}/: expected some of {', '.join(sorted(endings))}"
        )
    return sorted(found, key=lambda path: path.relative_to(root).as_posix())


def read_text(path: Path) -> str:
    """Read a file of UTF-8 text.

    Raises InputError when there is none.
    """
    with open_regular(path) as file:
        raw = file.read()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start}); convert it") from error


def listing_sha256(root: Path, paths: Iterable[Path]) -> str:
    """SHA-256 over relative paths and sizes: changes when a file comes, goes or grows."""
    digest = hashlib.sha256()
    for path in paths:
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
        digest.update(f"{name}\0{path.stat().st_size}\0".encode())
    return digest.hexdigest()


MAX_FILE_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Decoding:
    """What such files are called, their endings, and from bytes and a name to a value."""

    name: str
    endings: tuple[str, ...]
    decode: "Callable[[bytes, str], Image | Sound]"


class DecodedFiles:
    """Files in a fixed order; the hash is that of the file."""

    def __init__(
        self,
        paths: Sequence[Path],
        ids: Sequence[str],
        description: dict[str, object],
        decoding: Decoding,
    ) -> None:
        self._paths = tuple(paths)
        self._ids = tuple(ids)
        self.description = description
        self._decode = decoding.decode

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, index: int) -> Sample:
        """Return one sample."""
        path, name = self._paths[index], self._ids[index]
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                most = byte_size(MAX_FILE_BYTES)
                raise InputError(f"{name} has {byte_size(size, up=True)}; at most {most} are read")
            raw = file.read(MAX_FILE_BYTES)
        with reading(path):
            value = self._decode(raw, name)
        return Sample(name, hashlib.sha256(raw).digest(), value)


def open_tree(root: Path, decoding: Decoding) -> DecodedFiles:
    """All such files below a directory, ordered by relative path, which is their id.

    Raises InputError when there are none.
    """
    paths = find_files(root, decoding.endings)
    ids = [path.relative_to(root).as_posix() for path in paths]
    description: dict[str, object] = {
        "format": f"{decoding.name} tree",
        "name": root.resolve().name,
        "listing_sha256": listing_sha256(root, paths),
    }
    return DecodedFiles(paths, ids, description, decoding)


def open_list(path: Path, decoding: Decoding) -> DecodedFiles:
    """Files named by a text file, one path per line, relative to that file.

    Anything after a tab is ignored; blank lines are left out. The id is the path as written.

    Raises InputError for a path that is not a file.
    """
    lines = read_text(path).splitlines()
    ids = [name for line in lines if (name := line.split("\t")[0].strip())]
    paths = [path.parent / name for name in ids]
    for name, file in zip(ids, paths, strict=True):
        if not file.is_file():
            raise InputError(f"{path.name} names {name!r}, which is not a file; correct the list")
    description: dict[str, object] = {
        "format": f"{decoding.name} list",
        "name": path.name,
        "listing_sha256": listing_sha256(path.parent, paths),
    }
    return DecodedFiles(paths, ids, description, decoding)
