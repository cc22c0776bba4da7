"""Small JSON files that carry their own checksum and are replaced as a whole."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError, StoreError
from repalign.printable import byte_size
from repalign.store.format.schema import MAX_JSON_BYTES


def canonical_json(content: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, no NaN.

    Raises:
        InputError: a value that JSON cannot hold.
    """
    try:
        return json.dumps(
            content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
    except (TypeError, ValueError) as error:
        raise InputError(
            f"not storable as JSON: {error}; give text, finite numbers, booleans, lists and dicts"
        ) from error


def sha256_of(text: str) -> str:
    """Return the sha256 of a text, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


def parse_json(text: bytes, where: str) -> dict[str, Any]:
    """Parse a JSON object that comes from a file.

    Raises:
        StoreError: text that is not a JSON object of finite numbers.
    """
    try:
        content = json.loads(text)
        canonical_json(content)  # Python takes NaN and 1e999 for numbers
    except (ValueError, RecursionError, InputError) as error:
        raise StoreError(f"{where}: not JSON ({error}); the file is damaged") from error
    if not isinstance(content, dict):
        raise StoreError(f"{where}: not a JSON object; the file is damaged")
    return content


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
    """Return a name beside ``path`` that no other writer uses; it starts with a dot."""
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")


def sync_file(path: Path) -> None:
    """Make a file, or the renames in a directory, survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
