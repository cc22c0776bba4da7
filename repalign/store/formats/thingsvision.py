"""Directories that thingsvision writes: ``features.*`` and ``file_names.txt``.

A directory may also hold one folder of features for each module. ``file_names.txt`` has one image
per line in the order of the rows.
"""

from dataclasses import replace
from pathlib import Path

from repalign.exceptions import InputError
from repalign.store.formats.contents import ForeignMatrix, ForeignRequest, choose_view
from repalign.store.formats.formats import BY_SUFFIX
from repalign.store.formats.identifiers import FILE_NAMES, read_id_lines

SUFFIXES = (".npy", ".pt", ".mat", ".hdf5", ".txt")


def read_thingsvision(request: ForeignRequest) -> ForeignMatrix:
    """Open the features of a directory or, as a view, of a module in it; names are the ids."""
    root = request.path
    features, folder = _features_file(root), root
    if features is not None:
        matrix = _read(request, features)
    else:
        files = {child.name: _features_file(child) for child in sorted(root.iterdir())}
        modules = {
            name: _read(replace(request, view=None), file) for name, file in files.items() if file
        }
        if not modules:
            raise InputError(f"{root}: {_explain_missing(root)}")
        view = choose_view(request, {name: module.raw.shape for name, module in modules.items()})
        matrix, folder = replace(modules[view], view=view), root / view
    candidates = (place / FILE_NAMES for place in (folder, root))
    names = next((path for path in candidates if path.is_file()), None)
    if names is None or request.id_column is not None:
        return matrix
    return replace(matrix, ids=read_id_lines(names), ids_from=str(names))


def _features_file(folder: Path) -> Path | None:
    paths = (folder / f"features{suffix}" for suffix in SUFFIXES)
    return next((path for path in paths if path.exists()), None)


def _read(request: ForeignRequest, features: Path) -> ForeignMatrix:
    matrix = BY_SUFFIX[features.suffix].read(replace(request, path=features))
    return replace(matrix, layout=f"thingsvision ({matrix.layout})")


def _explain_missing(root: Path) -> str:
    problem = "is a directory without a store manifest and without features.npy; expected "
    part = next(iter([*root.glob("features*"), *root.glob("*/features*")]), None)
    if part is None:
        return problem + "a repalign store or the layout of thingsvision"
    return problem + f"whole files: join {part.relative_to(root)} and the other parts"
