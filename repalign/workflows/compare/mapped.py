"""Embeddings that went through a map fitted on the same pairs: judge them on other rows.

A map that ``--save-maps`` fitted has seen its rows. Where ``repalign apply`` wrote one side of a
pair with a map to the other side, errors on those rows are in-sample whatever the split: only
rows that did not fit the map are held out.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from repalign.aliases import BoolArray
from repalign.core.inference.splits import Split, no_split
from repalign.exceptions import InputError
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.compare.aligned import AlignedPair


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


def judge_unseen(pair: AlignedPair) -> AlignedPair:
    """Return a pair whose held-out rows did not fit a map that made one of its sides."""
    sides = [space.source for space in pair.spaces]
    seen = np.zeros(pair.n_rows, dtype=bool)
    mapped = []
    for space, source, partner in zip(pair.spaces, sides, sides[::-1], strict=True):
        mask = fitted_mask(source, partner)
        if mask is not None:
            seen |= mask if space.positions is None else mask[space.positions]
            mapped.append(source.name)
    if not seen.any():
        return pair
    groups = np.unique(pair.groups, return_inverse=True)[1]
    is_seen = np.bincount(groups, weights=seen)[groups] > 0
    names = " and ".join(mapped)
    made = f"{names}: made by a map fitted on {seen.sum()} of these {len(seen)} rows"
    if is_seen.all():
        split = no_split(pair.n_rows)
        advice = "no row is held out; fit the map on a part of the rows (--map-rows training)"
    else:
        split = Split((~is_seen).astype(np.int64), n_parts=2, judged=(1,))
        advice = f"held-out errors are those of the other {np.count_nonzero(~is_seen)}"
    warnings = (*pair.report.warnings, f"{made}; {advice}")
    return replace(pair, split=split, report=replace(pair.report, warnings=warnings))
