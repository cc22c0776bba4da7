"""Fitted whitening and ICA as artefacts: the same files as the maps of ``compare``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repalign.core.affine import AffineMap
from repalign.exceptions import InputError
from repalign.files import ensure_directory
from repalign.store.map_file import SavedMap, save_map

SUFFIX = ".safetensors"

# The fitted map by source, view and condition.
Transforms = Mapping[tuple[str, str, str], AffineMap]


def save_transforms(
    transforms: Transforms,
    folder: str | Path,
    *,
    settings: Mapping[str, Any],
    overwrite: bool = False,
) -> list[Path]:
    """Save the transform of every condition but raw, fitted on all rows, and return the files.

    A file is named after its condition: ``pca-ica.safetensors``; with several sources their
    number stands before it.
    """
    where = ensure_directory(folder)
    origins = list(dict.fromkeys((source, view) for source, view, _ in transforms))
    written = []
    for (source, view, condition), fitted in transforms.items():
        if condition == "raw":
            continue
        number = f"{origins.index((source, view)) + 1:02d}-" if len(origins) > 1 else ""
        path = where / f"{number}{condition.replace('+', '-')}{SUFFIX}"
        metadata = {"source": {"name": source, "view": view}, "settings": dict(settings)}
        saved = SavedMap(condition, fitted.matrix, fitted.shift, metadata)
        save_map(saved, path, overwrite=overwrite)
        written.append(path)
    return written


def check_folder(folder: str | Path, *, overwrite: bool) -> None:
    """Check, before anything is computed, that transforms can be saved there.

    Raises:
        InputError: It is a file, or it holds transforms that are not to be replaced.
    """
    where = Path(folder)
    if where.exists() and not where.is_dir():
        raise InputError(f"{where}: is a file; expected a folder for the transforms")
    held = sorted(where.glob(f"*{SUFFIX}")) if where.is_dir() else []
    if held and not overwrite:
        raise InputError(
            f"{held[0]}: already exists; choose another folder, or allow replacing (--overwrite)"
        )
