"""Directories that thingsvision writes: ``features.*``, whole or in parts, and ``file_names.txt``.

``save_features`` writes ``features.npy`` (or .pt, .mat, .hdf5, .txt) and, where memory was short,
``features_01.npy``, ``features_02.npy``, …. An extraction with an output directory writes one
subdirectory per module with parts such as ``features_0-512.npy``. The data set writes
``file_names.txt``, one image per line in the order of the rows.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray, Rows
from repalign.exceptions import InputError, SeveralViewsError
from repalign.store.foreign.contents import ForeignMatrix, ForeignRequest
from repalign.store.foreign.formats import BY_SUFFIX
from repalign.store.foreign.identifiers import FILE_NAMES, read_id_lines

SUFFIXES = (".npy", ".pt", ".mat", ".hdf5", ".txt")
PART = re.compile(r"features.*_(\d+)(?:-(\d+))?")


class ConcatenatedRows:
    """Rows of several matrices of one width, one after the other."""

    def __init__(self, parts: Sequence[Rows], *, label: str) -> None:
        widths = {part.shape[1] for part in parts}
        types = {part.dtype for part in parts}
        if len(widths) > 1 or len(types) > 1:
            raise InputError(
                f"{label}: parts have {sorted(widths)} columns of types "
                f"{sorted(str(kind) for kind in types)}; expected one width and one type"
            )
        self._parts = parts
        self._ends = np.cumsum([part.shape[0] for part in parts])
        self.shape: tuple[int, int] = (int(self._ends[-1]), parts[0].shape[1])
        self.dtype: np.dtype[Any] = parts[0].dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array."""
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        blocks = [np.empty((0, self.shape[1]), dtype=self.dtype)]
        for part, end in zip(self._parts, self._ends.tolist(), strict=True):
            first = end - part.shape[0]
            if start < end and stop > first:
                blocks.append(part.read(max(start - first, 0), min(stop, end) - first))
        return np.concatenate(blocks)

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return the given rows; they are strictly increasing."""
        edges = np.searchsorted(rows, [0, *self._ends.tolist()])
        blocks = [np.empty((0, self.shape[1]), dtype=self.dtype)]
        for place, part in enumerate(self._parts):
            wanted = rows[edges[place] : edges[place + 1]]
            if len(wanted):
                blocks.append(part.take(wanted - (int(self._ends[place]) - part.shape[0])))
        return np.concatenate(blocks)


def read_thingsvision(request: ForeignRequest) -> ForeignMatrix:
    """Open a directory of the thingsvision layout; a view is the name of a module."""
    directory, view = _features_directory(request)
    whole = [directory / f"features{suffix}" for suffix in SUFFIXES]
    found = next((path for path in whole if path.is_file()), None)
    if found is not None:
        inner = BY_SUFFIX[found.suffix].read(ForeignRequest(found, id_column=request.id_column))
    else:
        inner = _read_parts(directory)
    names = next(
        (
            folder / FILE_NAMES
            for folder in (directory, request.path)
            if (folder / FILE_NAMES).is_file()
        ),
        None,
    )
    inner = replace(inner, view=view or inner.view, layout=f"thingsvision ({inner.layout})")
    if names is None or request.id_column is not None:
        return inner
    return replace(inner, ids=read_id_lines(names), ids_from=str(names))


def _features_directory(request: ForeignRequest) -> tuple[Path, str | None]:
    """Return the directory that holds the features and the module it stands for."""
    directory = request.path
    modules = {
        child.name: child
        for child in sorted(directory.iterdir())
        if child.is_dir() and _has_features(child)
    }
    if request.view is not None:
        if request.view in modules:
            return modules[request.view], request.view
        raise InputError(
            f"{directory}: has no module {request.view!r} with features; "
            f"it has {', '.join(modules) or 'none'}"
        )
    if _has_features(directory):
        return directory, None
    if len(modules) == 1:
        name, child = next(iter(modules.items()))
        return child, name
    if modules:
        raise SeveralViewsError(
            f"{directory}: has features of {len(modules)} modules, {', '.join(modules)}; choose "
            f"one: {directory}::{next(iter(modules))}",
            list(modules),
        )
    raise InputError(
        f"{directory}: is a directory without a store manifest and without features.npy; expected "
        "a repalign store or the layout of thingsvision"
    )


def _has_features(directory: Path) -> bool:
    return any(
        path.suffix in SUFFIXES and path.stem.startswith("features") for path in directory.iterdir()
    )


def _read_parts(directory: Path) -> ForeignMatrix:
    parts = []
    for path in directory.iterdir():
        match = PART.fullmatch(path.stem)
        if match and path.suffix in SUFFIXES:
            first, last = match.groups()
            parts.append((int(first), None if last is None else int(last), path))
    parts.sort()
    if not parts:
        raise InputError(
            f"{directory}: has no features file of a known name; expected features.npy"
        )
    _check_no_gap(directory, parts)
    matrices = [BY_SUFFIX[path.suffix].read(ForeignRequest(path)) for _, _, path in parts]
    for (first, last, path), matrix in zip(parts, matrices, strict=True):
        if last is not None and matrix.raw.shape[0] != last - first:
            raise InputError(
                f"{path}: has {matrix.raw.shape[0]} rows, its name promises {last - first}; "
                "extract it again"
            )
    return replace(
        matrices[0],
        view="features",
        raw=ConcatenatedRows([matrix.raw for matrix in matrices], label=str(directory)),
        ids=None,
        ids_from="",
    )


def _check_no_gap(directory: Path, parts: Sequence[tuple[int, int | None, Path]]) -> None:
    """Check that the parts follow on each other: numbers by one, ranges end to start."""
    expected = 0 if parts[0][1] is not None else 1
    for first, last, path in parts:
        if first != expected:
            raise InputError(
                f"{directory}: the part before {path.name} is missing or there twice; expected "
                f"one that starts at {expected}"
            )
        expected = first + 1 if last is None else last
