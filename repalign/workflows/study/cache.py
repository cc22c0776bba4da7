"""Finished units of work on the disk, found again by content and settings.

One file a unit: a line that says what it is, a checksum of its key and its result, then the result.
A file appears whole or not at all, so that several runs may use one folder; what is damaged, or was
copied from another unit, counts as absent.
"""

import contextlib
import functools
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError, RepalignError, reading
from repalign.files import open_regular, writing
from repalign.workflows.machine import Machine, parse_memory
from repalign.workflows.study.codec import DamagedUnitError, decode, encode

HEADING = b"repalign unit 2\n"
SUFFIX = ".unit"
LIMIT = "4GiB"
# Larger results cost more to keep than most cost to compute.
LARGEST_SHARE = 8
VERSIONED = ("numpy", "scipy", "scikit-learn", "torch")


def default_folder() -> Path:
    """Return where units are kept: ``$REPALIGN_CACHE``, else the user's folder for caches."""
    own = os.environ.get("REPALIGN_CACHE")
    if own:
        return Path(own)
    home = os.environ.get("XDG_CACHE_HOME")
    if home:
        return Path(home) / "repalign"
    try:
        return Path.home() / ".cache" / "repalign"
    except RuntimeError as failure:
        raise InputError(
            "there is no home directory to keep finished work in; set REPALIGN_CACHE to a folder, "
            "or go without (--no-cache)"
        ) from failure


def default_limit() -> int:
    """Return how many bytes are kept: ``$REPALIGN_CACHE_BYTES``, or 4 GiB."""
    name = "REPALIGN_CACHE_BYTES"
    return parse_memory(os.environ.get(name, LIMIT), name)


@dataclass(frozen=True)
class CacheInfo:
    """What a folder of units holds."""

    folder: str
    n_units: int
    n_bytes: int
    limit_bytes: int


@dataclass(frozen=True)
class WorkCache:
    """Finished units in a folder, the longest unused of which go when there are too many bytes."""

    folder: Path
    limit_bytes: int

    def get(self, key: str) -> Any | None:
        """Return the result of a unit; None where there is none, or a damaged one."""
        path = self._path(key)
        try:
            with open_regular(path) as file:
                if os.fstat(file.fileno()).st_uid not in (os.geteuid(), 0):
                    return None  # somebody else's: it may say anything
                content = file.read()
        except (OSError, InputError):
            return None
        sealed = content.removeprefix(HEADING)
        digest, encoded = sealed[:64], sealed[65:]
        if len(sealed) == len(content) or _digest(key, encoded) != digest:
            return None
        try:
            with reading(path):
                result = decode(encoded)
        except DamagedUnitError:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return result

    def put(self, key: str, result: Any) -> None:
        """Keep the result of a unit; where that fails there is simply none to find."""
        content = encode(result)
        if len(content) > self.limit_bytes // LARGEST_SHARE:
            return
        with contextlib.suppress(OSError, RepalignError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._path(key)
            if path.is_symlink() or (path.exists() and not path.is_file()):
                path.unlink()  # a link or a pipe would be written into
            with writing(path) as whole:
                whole.write_bytes(HEADING + _digest(key, content) + b"\n" + content)

    def check_private(self) -> None:
        """Check that not everybody may write into the folder, where it is there.

        Raises:
            InputError: Everybody may.
        """
        with contextlib.suppress(OSError):
            if self.folder.stat().st_mode & stat.S_IWOTH:
                raise InputError(
                    f"{self.folder}: everybody may write there, and decide what is found; take the "
                    "permission away (chmod o-w), set REPALIGN_CACHE to another folder, or go "
                    "without (--no-cache)"
                )

    def trim(self) -> None:
        """Let the longest unused units go until the others are within the limit."""
        found = sorted(self._files(), key=lambda item: item[1].st_mtime, reverse=True)
        kept = 0
        for path, status in found:
            kept += status.st_size
            if kept > self.limit_bytes:
                with contextlib.suppress(OSError):
                    path.unlink()

    def info(self) -> CacheInfo:
        """Say what the folder holds."""
        sizes = [status.st_size for _, status in self._files()]
        return CacheInfo(str(self.folder), len(sizes), sum(sizes), self.limit_bytes)

    def clear(self) -> CacheInfo:
        """Remove every unit, and say what there was; other files stay."""
        before = self.info()
        for path, _ in self._files():
            with contextlib.suppress(OSError):
                path.unlink()
        return before

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.folder.glob(f"*{SUFFIX}"):
            with contextlib.suppress(OSError):  # another run may have removed it
                yield path, path.stat()


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + content).hexdigest().encode()


def open_cache() -> WorkCache:
    """Return the user's cache of finished units; nothing is made on the disk yet."""
    return WorkCache(default_folder(), default_limit())


def full_key(key: str, machine: Machine) -> str:
    """Return the name of a unit: content, settings, and all else that its bits depend on."""
    told = f"{key} {machine.device} {machine.memory_bytes} {_code()}"
    kind = key.split("-")[0]
    return f"{kind}-{hashlib.sha256(told.encode()).hexdigest()[:40]}"


@functools.cache
def _code() -> str:
    """Name the code that computes: every module of the package, and the libraries beneath it."""
    found = hashlib.sha256(repr([version(name) for name in VERSIONED]).encode())
    package = Path(__file__).parents[2]
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] not in ("cli", "zoo", "experiments", "models"):
            found.update(path.read_bytes())
    return found.hexdigest()
