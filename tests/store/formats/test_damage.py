"""Flipped, cut and spliced files of every layout: values or a refusal, never anything else."""

import random
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import save_file

from repalign.exceptions import RepalignError
from repalign.store.open import open_embeddings

VALUES = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
NAMES = [f"cat-{row}" for row in range(40)]
N_DAMAGED = 80


def save_old_torch(path: Path) -> None:
    torch.save({"x": torch.from_numpy(VALUES)}, path, _use_new_zipfile_serialization=False)


def save_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=VALUES, chunks=(8, 6), compression="gzip", fletcher32=True)
        file["ids"] = np.array(NAMES, dtype="S")


def frame() -> pd.DataFrame:
    return pd.DataFrame(VALUES, index=NAMES, columns=list("abcdef"))


# Without .mat, at some damage of which scipy crashes.
WRITERS: dict[str, Callable[[Path], object]] = {
    "rows.npy": lambda path: np.save(path, VALUES),
    "columns.npy": lambda path: np.save(path, np.asfortranarray(VALUES)),
    "plain.npz": lambda path: np.savez(path, x=VALUES, ids=np.array(NAMES)),
    "packed.npz": lambda path: np.savez_compressed(path, x=VALUES, ids=np.array(NAMES)),
    "new.pt": lambda path: torch.save({"x": torch.from_numpy(VALUES), "ids": NAMES}, path),
    "old.pt": save_old_torch,
    "a.safetensors": lambda path: save_file({"x": VALUES}, path),
    "a.csv": lambda path: frame().to_csv(path),
    "columns.parquet": lambda path: frame().to_parquet(path),
    "lists.parquet": lambda path: pd.DataFrame({"x": list(VALUES)}).to_parquet(path),
    "a.hdf5": save_hdf5,
}


def damage(content: bytes, chance: random.Random) -> bytes:
    """Flip one or two bits, cut the end off, cut a piece out, or copy a piece over another."""
    damaged = bytearray(content)
    kind = chance.random()
    at, other = chance.randrange(len(damaged)), chance.randrange(len(damaged))
    if kind < 0.6:
        damaged[at] ^= 1 << chance.randrange(8)
        damaged[other] ^= chance.choice([0, 1 << chance.randrange(8)])
    elif kind < 0.75:
        del damaged[at:]
    elif kind < 0.9:
        del damaged[at : at + chance.randrange(1, 64)]
    else:
        damaged[at : at + 16] = damaged[other : other + 16]
    return bytes(damaged)


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_files_give_values_or_a_refusal(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    content = path.read_bytes()
    chance = random.Random(name)

    for _ in range(N_DAMAGED):
        path.write_bytes(damage(content, chance))
        # a flipped bit may also give a number that a cast to float warns of
        with suppress(RepalignError), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error")
            source = open_embeddings(path)
            source.rows.read(0, min(source.n_rows, 1000))
