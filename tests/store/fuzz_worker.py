"""Damages copies of a store at random and reads them; started by test_fuzz.py as a process.

Arguments: the store (a file, or a file of a directory store), the kind of damage, a seed, the
number of copies. Exits with 1 and the number of the copy if wrong values came back or anything
but a StoreError was raised; memory and time are bounded from outside by limits.
"""

import random
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from repalign.exceptions import StoreError
from repalign.store import open_store

SECONDS_PER_COPY = 10
MEMORY = 2**29


def content(path: Path, *, allow_incomplete: bool = False) -> list[Any]:
    """Read everything that a store has."""
    with open_store(path, allow_incomplete=allow_incomplete) as store:
        found: list[Any] = [store.fingerprint, store.spec, store.info.licence, list(store.views)]
        found.append(dict(store.info.environment))
        for name in store.views:
            view = store.view(name)
            found.append((view.shape, view.dtype, view.read(0, len(store)).tobytes()))
        columns = store.index.slice(0, len(store)).columns
        found.append({name: values.tolist() for name, values in columns.items()})
        return found


def flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 1, 1, 2, 8, 64])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def cut(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    if rng.random() < 0.4:
        del data[start:]
    else:
        length = rng.choice([1, 4, 8, 64, 512, 4096, 16384])
        if rng.random() < 0.5:
            del data[start : start + length]
        else:
            stop = min(len(data), start + length)
            data[start:stop] = bytes([rng.choice([0, 255])]) * (stop - start)


def splice(data: bytearray, rng: random.Random) -> None:
    length = rng.choice([1, 2, 4, 8, 16, 64, 512, 4096, 16384])
    source, target = rng.randrange(len(data)), rng.randrange(len(data))
    if rng.random() < 0.5:  # aligned, as a disk would do it
        source, target = source // length * length, target // length * length
    piece = data[source : source + length]
    stop = target if rng.random() < 0.3 else target + len(piece)
    data[target:stop] = piece


DAMAGES = {"flip": flip, "cut": cut, "splice": splice}


def read_copies(path: Path, kind: str, seed: int, count: int) -> int:
    store = path if path.suffix == ".h5" and "part-" not in path.name else path.parent
    original = content(store)
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / store.name
        if store.is_dir():
            shutil.copytree(store, copy)
        target = copy / path.name if store.is_dir() else copy
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(count):
            data = bytearray(path.read_bytes())
            DAMAGES[kind](data, random.Random(f"{kind} {seed} {number}"))
            target.write_bytes(data)
            signal.alarm(SECONDS_PER_COPY)  # a hang ends the process
            try:
                found = content(copy)
            except StoreError as error:
                refused += 1
                if "\n" in str(error):
                    raise SystemExit(f"copy {number}: more than one line") from error
            else:
                if found != original:
                    raise SystemExit(f"copy {number}: other values came back")
            signal.alarm(0)
        used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        if used > MEMORY:
            raise SystemExit(f"{used} bytes of memory were used")
    return refused


if __name__ == "__main__":
    place, damage, first, copies = sys.argv[1:]
    print(read_copies(Path(place), damage, int(first), int(copies)))  # noqa: T201
