"""Make a repalign store of foreign embeddings, with a record of where they came from."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

from repalign.aliases import Rows
from repalign.arguments import checked
from repalign.exceptions import InputError
from repalign.files import file_sha256, protecting
from repalign.store.format import VIEW_NAME, StoredDtype
from repalign.store.open import IMPORTED, Embeddings, as_source, is_store
from repalign.store.reader import StoreInfo
from repalign.store.source import EmbeddingSource
from repalign.store.writing.options import WriteOptions
from repalign.store.writing.writer import write_store

MAX_VIEW_NAME = 64


@checked
def import_store(
    source: Embeddings,
    out: str | Path,
    *,
    view: str | None = None,
    licence: str | None = None,
    overwrite: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> StoreInfo:
    """Copy foreign embeddings to a store, in blocks and in their precision.

    The spec of the store records name and sha256 of the file, its layout and view, and what
    identifies the rows; rows that only have an order are still matched by order afterwards.

    Args:
        source: a path (``x.npz::view``), an array, a tensor, a frame, or what ``open_embeddings``
            and ``as_source`` return, which take ids.
        out: the store; one file if it ends in ``.h5``.
        view: name of the view in the store; by default that of the source, with other characters
            than letters, digits, ``_``, ``.`` and ``-`` replaced.
        licence: note on the terms of use.
        overwrite: replace what is there.
        on_progress: called with the rows written and their total.

    Raises:
        InputError: the source is a store already, a row is not finite, ``out`` is the source
            itself, or exists.
        StoreError: the store cannot be written.

    Example:
        >>> import numpy as np
        >>> np.savez("x.npz", emb=np.eye(3), ids=["a", "b", "c"])
        >>> import_store("x.npz", "x.h5").n_rows
        3
    """
    source = as_source(source)
    if source.path is not None and is_store(source.path):
        raise InputError(
            f"{source.path}: is a repalign store already; use it as it is, or pack or export it"
        )
    name = view or native_view_name(source.view)
    options = WriteOptions(
        dtype=stored_type(source.rows),
        licence=licence,
        expected_rows=source.n_rows,
    )
    with protecting([] if source.path is None else [source.path]):
        return write_store(
            out,
            {name: source.rows},
            index=source.index,
            spec={IMPORTED: provenance(source)},
            options=options,
            overwrite=overwrite,
            on_progress=on_progress,
        )


def native_view_name(view: str) -> str:
    """Return a name that a view of a store may have, as near to ``view`` as can be."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", view)[:MAX_VIEW_NAME]
    return name if VIEW_NAME.fullmatch(name) and name not in {".", ".."} else "embedding"


def provenance(source: EmbeddingSource) -> dict[str, Any]:
    """Return where a source comes from: names and hashes of its files, no directories."""
    return {
        "files": {} if source.path is None else _file_hashes(source.path),
        "layout": source.info.get("layout"),
        "view": source.view,
        "dtype": str(source.rows.dtype),
        "row_identity": source.identity,
        "ids_from": _without_directories(str(source.info.get("ids_from", "row order"))),
    }


def stored_type(rows: Rows) -> StoredDtype:
    """Return the name of the type of rows, which a store keeps exactly.

    Raises:
        InputError: a type that no store has.
    """
    name = rows.dtype.newbyteorder("=").name
    if name not in get_args(StoredDtype):
        raise InputError(f"values of type {name}; expected {', '.join(get_args(StoredDtype))}")
    return cast("StoredDtype", name)


def _file_hashes(path: Path) -> dict[str, str]:
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    top = path.parent if path.is_file() else path
    return {str(file.relative_to(top)): file_sha256(file) for file in files}


def _without_directories(ids_from: str) -> str:
    path, mark, column = ids_from.partition("::")
    return Path(path).name + mark + column if "/" in path else ids_from
