"""Bytes that hold no result are refused as such, whatever they hold."""

import io
import json

import numpy as np
import pytest

from repalign.engine.cache import HEADING, Cache, _digest, decode
from repalign.exceptions import InputError


def packed(tree: object, **arrays: np.ndarray) -> bytes:
    text = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    stream = io.BytesIO()
    np.savez(stream, tree=np.frombuffer(text, dtype=np.uint8), **arrays)
    return stream.getvalue()


def one_array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    return stream.getvalue()


DAMAGED = {
    "nothing": b"",
    "no archive": b"PK\x03\x04",
    "one array": one_array(),
    "no JSON": packed(b"{"),
    "an array that is not there": packed({"a": "a0"}),
    "no name of an array": packed({"a": []}),
    "no list": packed({"t": 5}),
    "no pair": packed({"m": [[1]]}),
    "an unknown class": packed({"c": "Nobody", "of": {}}),
    "no class": packed({}),
    "another class": packed({"c": "AffineMap", "of": {"kind": "x"}}),
    "no fields": packed({"c": "AffineMap", "of": []}),
    "no value of an enumeration": packed({"c": "Claim", "value": "x"}),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_bytes_are_refused_and_count_as_absent(name: str, tmp_path) -> None:
    with pytest.raises(InputError, match="result"):
        decode(DAMAGED[name])
    content = DAMAGED[name]
    (tmp_path / "key.result").write_bytes(HEADING + _digest("key", content) + b"\n" + content)
    assert Cache(tmp_path, 2**30).get("key") is None
