"""Damaged maps, loaded and applied."""

import json
import random
import struct
from pathlib import Path

import numpy as np

from repalign import StoreError
from repalign.store.exchange.map_file import SavedMap, load_map, save_map
from tests.faults.counts import Counts, outcome_of
from tests.faults.damage import damaged_bytes, damaged_json


def damage_maps(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Load damaged maps: bytes anywhere, and the description beside the arrays."""
    counts = Counts("maps (safetensors)")
    original = folder / "map.safetensors"
    values = np.random.default_rng(0).standard_normal((4, 3))
    save_map(SavedMap("rigid", values, values[0], {"source": {"name": "a"}}), original)
    content, expected = original.read_bytes(), _content(original)
    for number in range(count):
        rng = random.Random(f"maps {seed} {number}")
        made = damaged_bytes(content, rng) if rng.random() < 0.5 else _described(content, rng)
        path = folder / "damaged.safetensors"
        path.write_bytes(made)
        outcome, why = outcome_of(lambda p=path: _content(p), expected, StoreError, is_sealed=True)
        counts.add(outcome, f"copy {number} of seed {seed}: {why}")
    return counts


def _content(path: Path) -> object:
    found = load_map(path)
    told = json.dumps(dict(found.metadata), sort_keys=True)
    return found.kind, found.matrix.tobytes(), found.shift.tobytes(), told


def _described(content: bytes, rng: random.Random) -> bytes:
    """Return the file with its header changed, and its length told right."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    if rng.random() < 0.6:
        told = header["__metadata__"]
        told["repalign"] = damaged_json(told["repalign"], rng)
    else:
        header = json.loads(_parsable(damaged_json(json.dumps(header), rng), header))
    made = json.dumps(header).encode()
    return struct.pack("<Q", len(made)) + made + content[8 + length :]


def _parsable(text: str, otherwise: object) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(otherwise)
    return text
