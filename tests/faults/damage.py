"""Damage: random bytes, and JSON and CSV with values, names and structure that nobody wrote."""

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.store.fuzz_worker import DAMAGES

HOSTILE = "=\x1b]0;owned\x07\x1b[2J|`x`[a](http://b)<script>$\\frac{}$\u202e\udcff\n% x"
LITERALS = ("NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "[" * 5000, '"\\ud800"', "-0", "")
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 10**30, 1e300, -1e-300, 0.5, "", "x", HOSTILE, "x" * 20_000,
    [], [None], [[[]]], {}, {"": {}}, [1e308, 1e308], ["a", 1],
)  # fmt: skip
CELLS = (
    "", "nan", "inf", "-1", "1e999", "x", "true", "9" * 5000, "=1+1", HOSTILE, '"', "0x10", "1_0",
    "x" * 200_000,
)  # fmt: skip


def damaged_bytes(content: bytes, rng: random.Random) -> bytes:
    """Return content with bits flipped, pieces cut, or pieces moved."""
    data = bytearray(content)
    DAMAGES[rng.choice(sorted(DAMAGES))](data, rng)
    return bytes(data)


def damaged_json(text: str, rng: random.Random) -> str:
    """Return a JSON text with one to three places changed, removed, added or moved."""
    content = json.loads(text)
    for _ in range(rng.choice([1, 1, 2, 3])):
        parent, key = _place(content, rng)
        if key is not None:  # else nothing is left
            rng.choice(_CHANGES)(parent, key, rng)
    made = json.dumps(content, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.2:  # what json.dumps does not write
        found = rng.choice(["0.", "true", "null", "{", '"map"'])
        made = made.replace(found, rng.choice(LITERALS), 1)
    return made


def damaged_csv(text: str, rng: random.Random) -> str:
    """Return a CSV with cells, columns or lines changed, removed, doubled or moved."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(rng.choice([1, 1, 2, 3])):
        row = rng.randrange(len(rows))
        column = rng.randrange(len(rows[row])) if rows[row] else 0
        action = rng.randrange(6)
        if action == 0 and rows[row]:
            rows[row][column] = rng.choice(CELLS)
        elif action == 1:
            del rows[row][column : column + 1]
        elif action == 2:
            rows.insert(row, list(rows[rng.randrange(len(rows))]))
        elif action == 3 and len(rows) > 1:
            del rows[row]
        elif action == 4:  # a whole column
            for each in rows:
                del each[column : column + 1]
        else:
            rng.shuffle(rows[row])
    return "\n".join(",".join(row) for row in rows) + rng.choice(["", "\n", "\r\n\r\n"])


def _place(content: Any, rng: random.Random) -> tuple[Any, Any]:
    """Return a random place of a document as a container and a key or index in it."""
    parent, inner, key = content, content, None
    while isinstance(inner, dict | list) and inner and (key is None or rng.random() < 0.75):
        parent = inner
        key = rng.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        inner = parent[key]
    return parent, key


def _value(rng: random.Random, more: Sequence[Any] = ()) -> Any:
    return copy.deepcopy(rng.choice([*VALUES, *more]))  # what is put in may be changed later


def _replace(parent: Any, key: Any, rng: random.Random) -> None:
    parent[key] = _value(rng)


def _remove(parent: Any, key: Any, rng: random.Random) -> None:
    if isinstance(parent, dict) or len(parent) > key:
        del parent[key]


def _add(parent: Any, key: Any, rng: random.Random) -> None:
    if isinstance(parent, dict):
        parent[rng.choice(["x", "map", "", HOSTILE])] = _value(rng)
    else:
        parent.insert(rng.randrange(len(parent) + 1), _value(rng, parent))


def _nest(parent: Any, key: Any, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 3, 200])):
        parent[key] = rng.choice([[parent[key]], {"x": parent[key]}])


_CHANGES: tuple[Callable[[Any, Any, random.Random], None], ...] = (
    _replace, _replace, _replace, _remove, _add, _nest,
)  # fmt: skip
