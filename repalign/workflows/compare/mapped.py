"""Embeddings that went through a map fitted on the same pairs: judge them on other rows.

A map that ``--save-maps`` fitted has seen its rows. Where ``repalign apply`` wrote one side of a
pair with a map to the other side, errors on those rows are in-sample whatever the split: only
rows that did not fit the map are held out.
"""

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from repalign.aliases import BoolArray
from repalign.exceptions import InputError
from repalign.store.sources.source import EmbeddingSource


def encode_rows(chosen: BoolArray) -> dict[str, Any]:
    """Return a choice of rows as JSON holds it."""
    packed = zlib.compress(np.packbits(chosen).tobytes(), 9)
    return {"n_rows": len(chosen), "rows": base64.b64encode(packed).decode()}


def decode_rows(text: Mapping[str, Any], n_rows: int, name: str) -> BoolArray:
    """Return a choice of ``n_rows`` rows that ``encode_rows`` wrote.

    Raises:
        InputError: It is not one.
    """
    n_bytes = -(-n_rows // 8)
    rows = text.get("rows")
    try:
        stored = base64.b64decode(rows if isinstance(rows, str) else "")
        packed = zlib.decompressobj().decompress(stored, n_bytes + 1)
    except (ValueError, zlib.error) as error:  # ValueError: no base64
        raise InputError(f"{name}: its fitted rows cannot be read; apply the map again") from error
    if len(packed) != n_bytes:
        raise InputError(f"{name}: has fitted rows of another store; apply the map again")
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=n_rows).astype(bool)


def fitted_mask(source: EmbeddingSource, partner: EmbeddingSource) -> BoolArray | None:
    """Return which rows of a store fitted the map to its partner that made it; None if no map."""
    spec = source.info.get("spec")
    made = spec.get("map") if isinstance(spec, Mapping) else None
    if not isinstance(made, Mapping) or not isinstance(made.get("fitted"), Mapping):
        return None
    target = made.get("to")
    names = (partner.fingerprint, partner.name)
    known = (target.get("fingerprint"), target.get("name")) if isinstance(target, Mapping) else ()
    if not set(known) & set(names):
        return None
    return decode_rows(made["fitted"], source.n_rows, source.name)
