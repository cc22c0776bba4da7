"""Digests of stored values, and fingerprints that equal stores and equal rows share.

The values of a column are cut into leaves of a fixed number of rows, a number that follows from
the width of the column alone. A leaf has a 128-bit XXH3 digest, checked at every read (it runs
at memory speed, sha256 would halve reading); a column has the sha256 of its leaf digests; the
fingerprint is the sha256 of those. Shards and packing leave all of them alike.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from repalign.exceptions import InputError
from repalign.store.format import Column


def canonical_json(content: Any) -> str:
    """Return the canonical JSON text of a value: sorted keys, no spaces, no NaN.

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


def leaf_digest(values: NDArray[Any]) -> bytes:
    """Return the 16 byte digest of the values of one leaf.

    Identifiers are hashed as NUL-terminated strings, since their width differs between files.
    """
    if values.dtype.kind == "S":
        return xxhash.xxh3_128_digest(b"\0".join(values.tolist()) + b"\0")
    return xxhash.xxh3_128_digest(np.ascontiguousarray(values).data.cast("B"))


def leaf_digests(column: Column, values: NDArray[Any]) -> list[bytes]:
    """Return the digests of rows that start at a leaf."""
    step = column.leaf_rows
    return [leaf_digest(values[at : at + step]) for at in range(0, len(values), step)]


def column_root(leaves: Iterable[Any]) -> str:
    """Return the sha256 of the leaf digests of a column, bytes or arrays of them, in row order."""
    return hashlib.sha256(b"".join(leaves)).hexdigest()


def fingerprint_of(n_rows: int, columns: Iterable[Column], roots: Mapping[str, str]) -> str:
    """Return the fingerprint of a store, from names, shapes, types, rows and values."""
    described = {
        column.path: {
            "root": roots[column.path],
            "width": column.width,
            # the width of identifiers is a matter of the file, not of the content
            "dtype": "S" if column.dtype.kind == "S" else column.dtype.str,
        }
        for column in columns
    }
    return sha256_of(canonical_json({"n_rows": n_rows, "columns": described}))


def content_fingerprint(n_rows: int, values: Column, roots: Mapping[str, str]) -> str:
    """Return the fingerprint of one matrix and the identities of its rows.

    Args:
        n_rows: number of rows.
        values: column of the matrix; its name does not enter.
        roots: of the matrix, as ``values``, and of the index columns that identify a row.
    """
    described = {"n_rows": n_rows, "width": values.width, "dtype": values.dtype.str}
    return sha256_of(canonical_json({**described, "roots": dict(roots)}))
