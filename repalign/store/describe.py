"""Descriptions of embeddings, for people and for scripts."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from repalign.exceptions import SeveralViewsError
from repalign.printable import listing
from repalign.store.index import POOLED, RowIndex, decode_ids
from repalign.store.open import check_exists, identity_of, is_store, open_embeddings
from repalign.store.reader import open_store
from repalign.store.source import EmbeddingSource, parse_locator


def describe_embeddings(locator: str | Path) -> dict[str, Any]:
    """Describe a store, finished or not, or a foreign file.

    Returns:
        JSON values: ``path``; ``layout``, what kind of file it is; ``n_rows``, None where the
        arrays of a foreign file differ in it; ``views``, per view its name, dim and dtype, of
        several arrays name and shape; ``row_identity``, which is empty for several arrays;
        ``n_bytes`` on disk; ``details``, everything else that is recorded.

    Raises:
        InputError: no such file, or one that holds no embeddings.
        StoreError: a damaged store.
    """
    path = parse_locator(locator).path
    check_exists(path)
    if is_store(path):
        return _describe_store(path)
    try:
        return _describe_foreign(open_embeddings(locator))
    except SeveralViewsError as several:
        return _describe_arrays(path, several)


def description_records(description: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a description as records of ``field``, with dots, and ``value``."""
    details = description["details"]
    views = {view["name"]: _view_text(view) for view in description["views"]}
    flat = flatten({**description, "views": views, "details": None})
    names = {key: listing(details[key]) for key in ("columns", "left_out") if key in details}
    filled = {name: value for name, value in flat.items() if value not in (None, "")}
    return [
        {"field": name, "value": value}
        for name, value in (filled | flatten({**details, **names})).items()
    ]


def read_head(source: EmbeddingSource, n_rows: int = 5) -> list[dict[str, Any]]:
    """Return the first rows as records: identities, then ``e0``, ``e1``, …."""
    n_rows = min(n_rows, source.n_rows)
    values = source.rows.read(0, n_rows)
    records = []
    for row, identity in enumerate(_identity_records(source.index.slice(0, n_rows))):
        numbers = {f"e{column}": value for column, value in enumerate(values[row].tolist())}
        records.append({"row": row, **identity, **numbers})
    return records


def flatten(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one, names joined by dots; lists become text."""
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            flat[f"{prefix}{name}"] = ", ".join(str(item) for item in value)
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _describe_store(path: Path) -> dict[str, Any]:
    with open_store(path, allow_incomplete=True) as store:
        info = store.info
        identity = identity_of(store.index, store.spec)
    return {
        "path": str(path),
        "layout": f"repalign store ({info.layout})",
        "n_rows": info.n_rows,
        "views": [asdict(view) for view in info.views],
        "row_identity": identity,
        "n_bytes": info.n_bytes,
        "details": {
            "format_version": info.format_version,
            "is_complete": info.is_complete,
            "n_files": info.n_shards,
            "fingerprint": info.fingerprint,
            "index_columns": list(info.index_columns),
            "licence": info.licence,
            "spec": dict(info.spec),
            "spec_sha256": info.spec_sha256,
            "environment": dict(info.environment),
        },
    }


def _describe_foreign(source: EmbeddingSource) -> dict[str, Any]:
    assert source.path is not None, "opened from a path"
    details = dict(source.info)
    layout = details.pop("layout")
    if source.columns:
        details["columns"] = list(source.columns)
    return {
        "path": source.name,
        "layout": layout,
        "n_rows": source.n_rows,
        "views": [{"name": source.view, "dim": source.dim, "dtype": str(source.rows.dtype)}],
        "row_identity": source.identity,
        "n_bytes": _size_of(source.path),
        "details": details,
    }


def _describe_arrays(path: Path, several: SeveralViewsError) -> dict[str, Any]:
    """Describe a foreign file of several arrays by their names and shapes."""
    shapes = several.shapes or dict.fromkeys(several.views)
    counts = {shape[0] for name in several.views if (shape := shapes[name])}
    return {
        "path": str(path),
        "layout": "several arrays",
        "n_rows": counts.pop() if len(counts) == 1 else None,
        "views": [{"name": name, "shape": shape} for name, shape in shapes.items()],
        "row_identity": "",
        "n_bytes": _size_of(path),
        "details": {"opened_as": f"{path}::{several.views[0]}"},
    }


def _size_of(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def _view_text(view: Mapping[str, Any]) -> str:
    if "shape" in view:
        return " × ".join(map(str, view["shape"] or ())) or "a matrix"
    return f"{view['dim']} columns, {view['dtype']}"


def _identity_records(index: RowIndex) -> list[dict[str, Any]]:
    columns = index.columns
    n_rows = len(index)
    ids = decode_ids(columns["ids"]) if "ids" in columns else [None] * n_rows
    hashes = columns.get("sample_sha", [None] * n_rows)
    rows = zip(ids, index.sample.tolist(), index.token.tolist(), hashes, strict=True)
    return [
        {
            "id": name,
            "sample": sample,
            "token": None if token == POOLED else token,
            "sample_sha": None if sha is None else sha.tobytes().hex(),
        }
        for name, sample, token, sha in rows
    ]
