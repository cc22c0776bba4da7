"""Damaged files of repalign's own formats: stores, saved maps, results, the cache."""

import json
import random
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from repalign import compare
from repalign.comparison.settings import CompareSettings
from repalign.engine.cache import SUFFIX, Cache
from repalign.exceptions import InputError, StoreError
from repalign.report.page import make_report
from repalign.results.files import Results, read_results
from repalign.store.index import RowIndex
from repalign.store.map_file import SavedMap, load_map, save_map
from repalign.store.reader import verify_store
from repalign.store.writer import StoreWriter, write_store
from tests.faults.counts import Counts
from tests.faults.damage import damaged_bytes, damaged_csv, damaged_json
from tests.faults.targets import Target, damage_all
from tests.shards import SmallShards
from tests.store.fuzz_worker import content

SMALL = CompareSettings(n_null=3, n_rotations=1, n_halves=0)
SPEC = {"seed": 1}
KEPT = tuple((f"fold{number}", 0.25 + number) for number in range(6))


def damage_stores(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Read and verify damaged stores: files, shards, manifests, what an unfinished run left."""
    return damage_all(Counts("stores"), store_targets(folder), folder, count, seed)


def damage_maps(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Load damaged maps: bytes anywhere, and the description beside the arrays."""
    return damage_all(Counts("maps"), [map_target(folder)], folder, count, seed)


def damage_results(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Read damaged results as ``report`` does; some are drawn too, since that takes a second."""
    return damage_all(Counts("results"), result_targets(folder), folder, count, seed)


def damage_kept(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Read damaged results of the cache, which stopped runs go on from."""
    return damage_all(Counts("kept results"), [kept_target(folder)], folder, count, seed)


def store_targets(folder: Path) -> list[Target]:
    """Return a target for every kind of file that a store may consist of."""
    rng = np.random.default_rng(0)

    def rows(n_rows: int) -> tuple[dict[str, Any], RowIndex]:
        views = {"v": rng.standard_normal((n_rows, 3), dtype=np.float32)}
        ids = np.array([f"id{i}" for i in range(n_rows)])
        sha = rng.integers(0, 256, (n_rows, 16), dtype=np.uint8)
        token = np.full(n_rows, -1)
        return views, RowIndex(np.arange(n_rows), token, sample_sha=sha, ids=ids)

    def write(name: str, n_rows: int, **options: Any) -> Path:
        views, index = rows(n_rows)
        settings = SmallShards(licence="none", **options)
        write_store(folder / name, views, index=index, spec=SPEC, options=settings)
        return folder / name

    def target(store: Path, file: str = "", share: int = 1) -> Target:
        read = partial(_read_and_verified, store)
        path = store / file if file else store
        return Target(
            f"{store.name} {file}", path, read, expected=StoreError, is_sealed=True, share=share
        )

    whole = write("whole", 200, shard_rows=64)
    begun = folder / "begun.h5.parts"
    views, index = rows(100)
    options = SmallShards(licence="none", shard_rows=40)
    writer = StoreWriter(
        folder / "begun.h5", resume=True, spec=SPEC, views={"v": 3}, options=options
    )
    writer.append(views, index)
    writer.close()
    return [
        target(write("tiny.h5", 3), share=3),  # nearly all of it says what it is
        target(write("chunks.h5", 9000)),
        target(write("large.h5", 5000)),
        target(whole, "part-00001.h5"),
        target(whole, "manifest.json"),
        target(begun, "part-00000.h5"),
        target(begun, "store.json"),
    ]


def _read_and_verified(path: Path) -> Any:
    """Return the content; what is read must be what is verified, and the other way round."""
    begun = path.suffix == ".parts"
    problems = verify_store(path, allow_incomplete=begun).problems
    try:
        found = content(path, allow_incomplete=begun)
    except StoreError:
        assert problems, "verified as sound, and refused by the reader"
        raise
    assert not problems, f"read, and not verified as sound: {problems}"
    return found


def map_target(folder: Path) -> Target:
    path = folder / "map.safetensors"
    values = np.random.default_rng(0).standard_normal((4, 3))
    save_map(SavedMap("rigid", values, values[0], {"source": {"name": "a"}}), path)
    return Target(
        "map", path, lambda: _map(path), _damaged_map, expected=StoreError, is_sealed=True
    )


def _map(path: Path) -> object:
    found = load_map(path)
    told = json.dumps(dict(found.metadata), sort_keys=True)
    return found.kind, found.matrix.tobytes(), found.shift.tobytes(), told


def _damaged_map(whole: bytes, rng: random.Random) -> bytes:
    """Damage bytes, or the header with its length told right."""
    if rng.random() < 0.5:
        return damaged_bytes(whole, rng)
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    if rng.random() < 0.6:
        told = header["__metadata__"]
        told["repalign"] = damaged_json(told["repalign"], rng)
        made = json.dumps(header).encode()
    else:
        made = damaged_json(json.dumps(header), rng).encode(errors="surrogatepass")
    return struct.pack("<Q", len(made)) + made + whole[8 + length :]


def small_results() -> dict[str, str]:
    """Return a result of two pairs as JSON and as CSV."""
    rng = np.random.default_rng(0)
    hidden = rng.laplace(size=(120, 3)) * [1, 2, 3]
    turned = [
        hidden @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
        + 0.1 * rng.standard_normal(hidden.shape)
        for _ in range(3)
    ]
    result = compare(*turned[1:], against=turned[0], settings=SMALL)
    return {form: result.table(form) for form in ("json", "csv")}


def result_targets(folder: Path) -> list[Target]:
    targets = []
    for ending, text in small_results().items():
        path = folder / f"result.{ending}"
        path.write_text(text)
        damage = partial(_damaged_text, make=damaged_json if ending == "json" else damaged_csv)
        for name, read, share in (("read", _read_result, 19), ("drawn", _drawn, 1)):
            told, use = f"{ending}, {name}", partial(read, path)
            targets.append(
                Target(
                    told, path, use, damage,
                    expected=InputError, is_sealed=ending == "json", share=share,
                )
            )  # fmt: skip
    return targets


def _damaged_text(whole: bytes, rng: random.Random, *, make: Any) -> bytes:
    if rng.random() < 0.25:
        return damaged_bytes(whole, rng)
    return make(whole.decode(), rng).encode(errors="surrogatepass")


def _read_result(path: Path) -> Results:
    """Read a result; one that lost its digest is read too, with a note that counts as refusal."""
    results = read_results(path)
    if results.notes:
        raise InputError(results.notes[0])
    return results


def _drawn(path: Path) -> Results:
    assert make_report(path).startswith("<!doctype html>")
    return _read_result(path)


def kept_target(folder: Path) -> Target:
    cache = Cache(folder, 2**20)
    cache.put("key", KEPT)
    path = folder / f"key{SUFFIX}"
    return Target("kept", path, partial(_kept, cache), expected=InputError, is_sealed=True)


def _kept(cache: Cache) -> bool:
    """Tell whether what is found is what was kept; what is refused is computed again."""
    result = cache.get("key")
    if result is None:
        raise InputError("no result of that name")
    return bool(result == KEPT)
