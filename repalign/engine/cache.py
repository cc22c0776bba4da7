"""Finished results on the disk, found again by content and settings.

One file a result: a heading, a checksum of its key and its content, then the content, which is an
npz archive of arrays with a JSON document of everything else; nothing in it can run. A file appears
whole or not at all, so that several runs may use one folder; what is damaged, or was copied from
another result, counts as absent.
"""

import contextlib
import functools
import hashlib
import io
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from repalign.damage_errors import NPY_ERRORS, ZIP_ERRORS
from repalign.engine.machine import Machine, parse_memory
from repalign.exceptions import InputError, RepalignError, first_line, reading
from repalign.files import open_regular, writing

PACKAGE = Path(__file__).parents[1]
HEADING = b"repalign result 1\n"
SUFFIX = ".result"
LIMIT = "4GiB"
# Larger results cost more to keep than most cost to compute.
LARGEST_SHARE = 8
VERSIONED = ("numpy", "scipy", "scikit-learn", "torch")
TREE = "tree"
TUPLE, MAPPING, ARRAY, CLASS = "t", "m", "a", "c"


def cache_key(kind: str, *parts: Any) -> str:
    """Return a name for a result of this kind: a hash of all that it depends on."""
    text = json.dumps(parts, sort_keys=True)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def digest(values: np.ndarray) -> str:
    """Return a short name of the values of an array of whole numbers."""
    plain = np.ascontiguousarray(values, dtype="<i8")
    return hashlib.sha256(plain.tobytes()).hexdigest()[:16]


def default_folder() -> Path:
    """Return where results are kept: ``$REPALIGN_CACHE``, else the user's folder for caches."""
    folder = os.environ.get("REPALIGN_CACHE")
    if folder:
        return Path(folder)
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
class Cache:
    """Results in a folder, the longest unused of which go when there are too many bytes."""

    folder: Path
    limit_bytes: int

    def find(self, key: str, machine: Machine) -> Any | None:
        """Return a result that was kept on such a machine; None where there is none."""
        return self.get(full_key(key, machine))

    def keep(self, key: str, machine: Machine, result: Any) -> None:
        """Keep a result that was computed on such a machine."""
        self.put(full_key(key, machine), result)

    def get(self, key: str) -> Any | None:
        """Return a result by its full name; None where there is none, or a damaged one."""
        path = self._path(key)
        try:
            with open_regular(path) as file:
                if os.fstat(file.fileno()).st_uid not in (os.geteuid(), 0):
                    return None  # another user's: it may hold anything
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
        except InputError:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return result

    def put(self, key: str, result: Any) -> None:
        """Keep a result under its full name; where that fails there is none to find."""
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
        """Remove the longest unused results until the others are within the limit."""
        n_bytes = 0
        for path, status in sorted(self._files(), key=lambda item: -item[1].st_mtime):
            n_bytes += status.st_size
            if n_bytes > self.limit_bytes:
                with contextlib.suppress(OSError):
                    path.unlink()

    def info(self) -> dict[str, Any]:
        """Return what the folder holds, as a record of ``repalign cache``."""
        sizes = [status.st_size for _, status in self._files()]
        return {
            "folder": str(self.folder),
            "n_results": len(sizes),
            "n_bytes": sum(sizes),
            "limit_bytes": self.limit_bytes,
        }

    def clear(self) -> dict[str, Any]:
        """Remove every result, and return what there was; other files stay."""
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


def open_cache() -> Cache:
    """Return the user's cache; nothing is made on the disk yet."""
    return Cache(default_folder(), default_limit())


def private_cache() -> Cache:
    """Return the user's cache, after checking that not everybody may write into it.

    Raises:
        InputError: Everybody may.
    """
    cache = open_cache()
    cache.check_private()
    return cache


def full_key(key: str, machine: Machine) -> str:
    """Return the name of a result: its key, and all else that its bits depend on."""
    code = code_digest("cli", "experiments", "models", "zoo")
    text = f"{key} {machine.device} {machine.memory_bytes} {code}"
    kind = key.split("-")[0]
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:40]}"


@functools.cache
def code_digest(*skipped: str) -> str:
    """Return a digest of the code that computes, and of the versions of its libraries.

    Args:
        skipped: Parts of the package whose modules do not count.
    """
    digest = hashlib.sha256(repr([version(name) for name in VERSIONED]).encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] not in skipped:
            digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def known_classes() -> dict[str, type]:
    """Return the classes that results are made of, by name; no others are written or read."""
    from repalign.comparison.pair import PairResult
    from repalign.comparison.results import (
        ErrorRecord,
        IcaReport,
        MeasureRecord,
        PairReport,
    )
    from repalign.comparison.search import Resampled
    from repalign.comparison.space import Scale, SpaceIca
    from repalign.core.affine import AffineMap
    from repalign.core.batches.judge import FoldMeasure
    from repalign.core.ica.components import IcaFit
    from repalign.core.ica.settings import IcaSettings
    from repalign.core.moments import PairMoments
    from repalign.core.resampling.best import Draws
    from repalign.core.resampling.intervals import GroupCount, Replicates
    from repalign.core.scale import Diameter
    from repalign.core.score import Score

    classes = (
        *(PairMoments, Scale, SpaceIca, Diameter, IcaFit, IcaSettings, AffineMap),
        *(PairResult, ErrorRecord, MeasureRecord, PairReport, IcaReport),
        *(Resampled, Draws, Replicates, GroupCount),
        *(FoldMeasure, Score),
    )
    return {known.__name__: known for known in classes}


def encode(value: Any) -> bytes:
    """Return a result as bytes.

    Raises:
        TypeError: It holds something that is not of a known class.
    """
    arrays: dict[str, np.ndarray] = {}
    tree = json.dumps(_to_tree(value, arrays)).encode()
    stream = io.BytesIO()
    np.savez(stream, **{TREE: np.frombuffer(tree, dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def decode(content: bytes) -> Any:
    """Return the result of ``encode``, equal to the last bit.

    Raises:
        InputError: These bytes do not hold one.
    """
    try:
        stored = np.load(io.BytesIO(content), allow_pickle=False)
        arrays = dict(stored) if isinstance(stored, np.lib.npyio.NpzFile) else {}
    except (*NPY_ERRORS, *ZIP_ERRORS) as error:
        raise InputError(f"result: cannot be read ({first_line(error)})") from error
    if TREE not in arrays:
        raise InputError("result: the archive has no tree")
    try:
        tree = json.loads(arrays.pop(TREE).tobytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"result: cannot be read ({first_line(error)})") from error
    return _from_tree(tree, arrays)


def _to_tree(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        name = f"{ARRAY}{len(arrays)}"
        arrays[name] = value
        return {ARRAY: name}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, tuple | list):
        return {TUPLE: [_to_tree(member, arrays) for member in value]}
    if isinstance(value, Mapping):
        return {MAPPING: [[str(key), _to_tree(member, arrays)] for key, member in value.items()]}
    if is_dataclass(value) and type(value).__name__ in known_classes():
        values = {
            field.name: _to_tree(getattr(value, field.name), arrays) for field in fields(value)
        }
        return {CLASS: type(value).__name__, "of": values}
    raise TypeError(f"{type(value).__name__}: not a class of results that can be kept")


def _from_tree(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(tree, dict):
        return tree
    if ARRAY in tree:
        return _member(arrays, tree[ARRAY])
    if TUPLE in tree:
        return tuple(_from_tree(member, arrays) for member in _list(tree[TUPLE]))
    if MAPPING in tree:
        pairs = [_list(pair, 2) for pair in _list(tree[MAPPING])]
        return {str(key): _from_tree(value, arrays) for key, value in pairs}
    kind = _member(known_classes(), tree.get(CLASS))
    values = tree.get("of")
    if not isinstance(values, dict) or set(values) != {field.name for field in fields(kind)}:
        raise InputError(f"result: the values are not those of a {kind.__name__}")
    return kind(**{name: _from_tree(value, arrays) for name, value in values.items()})


def _member(members: Mapping[Any, Any], name: object) -> Any:
    if not isinstance(name, str | int | float) or name not in members:
        raise InputError(f"result: {name!r} is named and not there")
    return members[name]


def _list(value: object, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or length not in (None, len(value)):
        raise InputError("result: a list has another form")
    return value
