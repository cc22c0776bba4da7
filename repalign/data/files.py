"""Finding and identifying the user's files."""

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

from repalign.exceptions import InputError
from repalign.files import open_regular


def find_files(root: Path, endings: Collection[str]) -> list[Path]:
    """All files below a directory with one of the endings, ordered by relative path.

    Hidden files and links that leave the directory are passed over.

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
