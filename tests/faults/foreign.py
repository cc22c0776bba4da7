"""Damaged embeddings in the formats of other programs, every layout that is read."""

import json
import random
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
from safetensors.numpy import save_file

from repalign.store.formats.formats import BY_SUFFIX
from repalign.store.open import open_embeddings
from tests.faults.counts import Counts
from tests.faults.damage import damaged_bytes, damaged_csv, damaged_json
from tests.faults.targets import Damage, Target, any_damage, apart, damage_all

N_ROWS = 50
VIEW = "emb"
# At some damage of .mat files scipy crashes, and at some of texts in HDF5 that library never ends.
NOT_DAMAGED = {".mat"}


def damage_foreign(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Open damaged foreign files and read all rows, ids and columns of them."""
    targets = foreign_targets(folder)
    missing = BY_SUFFIX.keys() - {each.path.suffix for each in targets} - NOT_DAMAGED
    assert not missing, f"no target for {missing}"
    return damage_all(Counts("foreign files"), targets, folder, count, seed)


def foreign_targets(folder: Path) -> list[Target]:
    """Return a target for every layout."""
    values = np.random.default_rng(0).standard_normal((N_ROWS, 4)).astype(np.float32)
    ids = [f"cat-{row}" for row in range(N_ROWS)]
    targets = []
    for name, save in {**_arrays(values, ids), **_tables(values, ids), **_torch(values)}.items():
        path = folder / name
        save(path)
        damage = DAMAGES.get(path.suffix, any_damage)
        targets.append(Target(name, path, partial(_content, path), damage, share=6))
    things = folder / "things"
    things.mkdir()
    np.save(things / "features.npy", values)
    names = things / "file_names.txt"
    names.write_text("".join(f"{each}\n" for each in ids))
    read = partial(_content, things)
    targets += _directories(folder, values, ids)
    targets += [
        Target("things features", things / "features.npy", read, share=2),
        Target("things names", names, read, share=2),
    ]
    return targets


def _content(path: Path) -> Any:
    source = open_embeddings(path)
    rows = source.rows.read(0, source.n_rows)
    some = source.rows.take(np.arange(0, source.n_rows, 7))
    # a damaged chunk of Blosc gives other bytes each time, and has no checksum
    is_same = path.suffix == ".zarr" or some.tobytes() == rows[::7].tobytes()
    assert is_same, "two ways of reading, two values"
    columns = source.index.slice(0, source.n_rows).columns
    told = {name: column.tolist() for name, column in columns.items()}
    return str(rows.dtype), rows.shape, rows.tobytes(), told, source.identity, source.columns


Save = Callable[[Path], object]


def _arrays(values: np.ndarray, ids: list[str]) -> dict[str, Save]:
    swapped = values.astype(">f8")
    token = np.zeros(N_ROWS, np.int64)

    def hdf5(path: Path, **options: Any) -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset(VIEW, data=values, **options)
            file["ids"] = np.array(ids, dtype="S8")

    def anndata(path: Path) -> None:
        with h5py.File(path, "w") as file:
            file["X"] = values
            file.create_group("obs").create_dataset("index", data=np.array(ids, dtype="S8"))

    packed = {"chunks": (16, 4), "compression": "gzip", "shuffle": True}
    return {
        "c.npy": lambda path: np.save(path, values),
        "f.npy": lambda path: np.save(path, np.asfortranarray(swapped)),
        "stored.npz": lambda path: np.savez(path, emb=values, ids=ids, token=token),
        "packed.npz": lambda path: np.savez_compressed(path, emb=swapped, ids=ids),
        "a.safetensors": lambda path: save_file(
            {VIEW: values}, path, metadata={"ids": json.dumps(ids)}
        ),
        "plain.h5": hdf5,
        "packed.h5": partial(hdf5, **packed),
        "sums.hdf5": partial(hdf5, chunks=(16, 4), fletcher32=True, compression="lzf"),
        "plain.h5ad": anndata,
    }


def _tables(values: np.ndarray, ids: list[str]) -> dict[str, Save]:
    frame = pd.DataFrame(values, columns=[f"x{i}" for i in range(4)]).astype(float)
    named = frame.assign(id=ids)
    lists = pd.DataFrame({"id": ids, VIEW: list(values)})
    return {
        "named.csv": lambda path: named.to_csv(path, index=False),
        "bare.csv": lambda path: np.savetxt(path, values, delimiter=","),
        "named.tsv": lambda path: named.to_csv(path, index=False, sep="\t"),
        "bare.txt": lambda path: np.savetxt(path, values),
        "columns.parquet": lambda path: named.to_parquet(path),
        "lists.parquet": lambda path: lists.to_parquet(path, compression="gzip"),
    }


def _torch(values: np.ndarray) -> dict[str, Save]:
    import torch

    tensor = torch.from_numpy(values)
    return {
        "tensor.pt": lambda path: torch.save(tensor, path),
        "dict.pth": lambda path: torch.save({VIEW: tensor, "ids": list(range(N_ROWS))}, path),
        "layers.pt": lambda path: torch.save({"feats": tensor.half().reshape(N_ROWS, 1, 4)}, path),
    }


def _directories(folder: Path, values: np.ndarray, ids: list[str]) -> list[Target]:
    """Return a target for every file of directories of zarr and of saved data sets."""
    apart(partial(_save_directories, folder, values, ids), folder)
    targets = []
    for name in ("two.zarr", "three.zarr", "saved"):
        read = partial(_content, folder / name)
        for path in sorted(folder.joinpath(name).rglob("*")):
            if path.is_file():
                damage = _damaged_description if _is_json(path) else any_damage
                told = str(path.relative_to(folder))
                targets.append(Target(told, path, read, damage, share=2))
    return targets


def _save_directories(folder: Path, values: np.ndarray, ids: list[str]) -> None:
    import pyarrow as pa
    import zarr

    for version, name in ((2, "two.zarr"), (3, "three.zarr")):
        group = zarr.open_group(str(folder / name), mode="w", zarr_format=version)
        group.create_array(VIEW, data=values, chunks=(40, 4))
        group.create_array("ids", data=np.array(ids, dtype="S8" if version == 2 else "U8"))
    saved = folder / "saved"
    saved.mkdir()
    table = pa.table({"id": ids, VIEW: pa.array(values.tolist(), pa.list_(pa.float32()))})
    file = "data-00000-of-00001.arrow"
    with pa.OSFile(str(saved / file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    (saved / "state.json").write_text(json.dumps({"_data_files": [{"filename": file}]}))


def _is_json(path: Path) -> bool:
    return path.suffix == ".json" or path.name in {".zarray", ".zgroup", ".zattrs"}


def _damaged_description(whole: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return damaged_bytes(whole, rng)
    text = whole.decode()
    if rng.random() < 0.3:  # sizes beside the names that only they have
        old = rng.choice(["40", "50", "4", "<f4", "float32", "zstd", "gzip"])
        text = text.replace(
            old, rng.choice(["0", "-1", "1", "99999999999", "400000000", "|O", "x"])
        )
        return text.encode()
    return damaged_json(text, rng).encode(errors="surrogatepass")


def _damaged_npy(whole: bytes, rng: random.Random) -> bytes:
    """Damage bytes, or the text that says type, order and shape, with its length told right."""
    if rng.random() < 0.4:
        return any_damage(whole, rng)
    (length,) = struct.unpack("<H", whole[8:10])
    told = whole[10 : 10 + length].decode()
    old, news = rng.choice(NPY)
    made = told.replace(old, rng.choice(news), 1).encode()[:65_000]
    return whole[:8] + struct.pack("<H", len(made)) + made + whole[10 + length :]


NPY = (
    ("<f4", ("<f8", "|O", "|V4", "<c8", "<U1", "<m8[s]", "|b1", ">f4", "<i8", "x", "<f16", "|S0")),
    (">f8", ("<f8", "|O", "<f2", "|S800", "<M8[ns]", "|V0", "(2,)f4", "f4,f4")),
    ("(50, 4)", ("(4, 50)", "(50, 5)", "(200,)", "()", "(-1, 4)", "(50, 4, 1)", "(50, 1e9)")),
    ("(50, 4)", ("(999999999999, 4)", f"({2**63}, 4)", "(0, 4)", "(50, 0)", "(True, 4)", "[50]")),
    ("False", ("True", "None", "1", "__import__('os').system('touch payload')")),
    ("{", ("[", "{" * 300, "(" * 60_000, "{'x': 1, ", "\x00")),
    ("descr", ("desc", "\udcff".encode(errors="surrogateescape").decode("latin1"))),
)


def _damaged_safetensors(whole: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.4:
        return any_damage(whole, rng)
    (length,) = struct.unpack("<Q", whole[:8])
    made = damaged_json(whole[8 : 8 + length].decode(), rng).encode(errors="surrogatepass")
    told = len(made) if rng.random() < 0.9 else rng.choice([0, 1, 2**31, 2**63, 2**64 - 1])
    return struct.pack("<Q", told) + made + whole[8 + length :]


def _damaged_text(whole: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return damaged_bytes(whole, rng)
    text = whole.decode()
    tabs = "\t" in text
    made = damaged_csv(text.replace("\t", ",") if tabs else text, rng)
    made = made.replace(",", "\t") if tabs else made
    return made.encode(errors="surrogatepass")


DAMAGES: dict[str, Damage] = {
    ".npy": _damaged_npy,
    ".safetensors": _damaged_safetensors,
    ".csv": _damaged_text,
    ".tsv": _damaged_text,
    ".txt": _damaged_text,
}
