"""Fitted whitening and ICA as artefacts: the same files as the maps of ``compare``."""

from pathlib import Path

from repalign.store.exchange.map_file import SavedMap, save_map
from repalign.workflows.disentangle.results import DisentangleResult

SUFFIX = ".safetensors"


def save_transforms(
    result: DisentangleResult, folder: str | Path, *, overwrite: bool = False
) -> list[Path]:
    """Save the transform of every condition but raw, fitted on all rows, and return the files.

    A file is named after its condition: ``pca-ica.safetensors``; with several sources their
    number stands before it.
    """
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    origins = list(dict.fromkeys((source, view) for source, view, _ in result.transforms or {}))
    written = []
    for (source, view, condition), fitted in (result.transforms or {}).items():
        if condition == "raw":
            continue
        number = f"{origins.index((source, view)) + 1:02d}-" if len(origins) > 1 else ""
        path = where / f"{number}{condition.replace('+', '-')}{SUFFIX}"
        metadata = {"source": {"name": source, "view": view}, "settings": dict(result.settings)}
        saved = SavedMap(condition, fitted.matrix, fitted.shift, metadata)
        save_map(saved, path, overwrite=overwrite)
        written.append(path)
    return written
