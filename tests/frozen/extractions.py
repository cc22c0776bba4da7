"""Extractions whose rows are kept: text, images, sounds, one's own module, two ranks, resumed."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import repalign
from repalign.zoo.shipped import shipped_path
from tests import tiny_models

TEXT = "--data builtin:shakespeare --limit 24"
DIGITS = "--data builtin:digits --limit 120"
RUN = Callable[[str], None]


@dataclass(frozen=True)
class Extraction:
    """A store, and the words of the command that makes it; without words it is made otherwise."""

    name: str
    model: str = ""
    words: str = ""


EXTRACTIONS = (
    Extraction("gpt0", "gpt-neox-seed0", f"{TEXT} --pool token"),
    Extraction("gpt1", "gpt-neox-seed1", f"{TEXT} --pool token"),
    Extraction("gpt-layers", "gpt-neox-seed0", f"{TEXT} --layer all --pool mean --pool last"),
    Extraction("gpt-float16", "gpt-neox-seed0", f"{TEXT} --dtype bf16 --store-dtype float16"),
    Extraction("resnet0", "resnet-seed0", f"{DIGITS} --layer all"),
    Extraction("resnet1", "resnet-seed1", f"{DIGITS} --layer all"),
    Extraction("mae-hf", "mae-transformers-seed0", f"{DIGITS} --layer final --layer 2"),
    Extraction("mae-timm", "mae-timm-seed1", f"{DIGITS} --layer all --pool patch-mean"),
    Extraction(
        "mae-tokens",
        "mae-transformers-seed0",
        "--data builtin:digits --limit 20 --pool token --layer final --layer 2",
    ),
    Extraction("sounds"),
    Extraction("own-module"),
    Extraction("two-ranks"),
    Extraction("resumed"),
)


def extract_all(folder: Path, run: RUN) -> None:
    """Make every store; ``run`` takes the words of a command."""
    for extraction in EXTRACTIONS:
        if extraction.model:
            model = shipped_path(extraction.model)
            run(f"extract {model} {extraction.words} -o {folder / extraction.name}.h5")
    extract_sounds(folder, run)
    extract_own_module(folder / "own-module.h5")
    extract_by_ranks(folder / "two-ranks.h5", run)
    extract_resumed(folder / "resumed.h5")


def extract_sounds(folder: Path, run: RUN) -> None:
    """Extract noise with a tiny model of sounds."""
    (folder / "wav2vec2").mkdir()
    tiny_models.save_sound_model(folder / "wav2vec2", "wav2vec2")
    tiny_models.save_sounds(folder / "noise", (0.5, 0.31, 0.8, 0.5))
    run(
        f"extract {folder / 'wav2vec2'} --data {folder / 'noise'} --layer final --layer 2 "
        f"-o {folder / 'sounds.h5'}"
    )


def extract_own_module(path: Path) -> None:
    """Extract from a module of one's own, which writes into its activations in place."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = {"hidden": nn.Linear(6, 8), "relu": nn.ReLU(inplace=True), "head": nn.Linear(8, 4)}
    module = nn.Sequential(OrderedDict(layers))
    batches = torch.randn(40, 6).split(16)
    repalign.extract(module, batches, output=path, layers=("hidden", "final"))


def extract_by_ranks(path: Path, run: RUN) -> None:
    """Extract with two processes that share the shards, one after the other."""
    model = shipped_path("gpt-neox-seed0")
    for rank in (1, 0):
        with environment(RANK=str(rank), WORLD_SIZE="2"):
            run(f"extract {model} {TEXT} --pool token --shard-samples 8 -o {path}")


def extract_resumed(path: Path) -> None:
    """Extract, stop after the first shards, and extract again."""

    class StopHere(Exception):
        """Stands for Ctrl-C."""

    def stop(progress: Any) -> None:
        if progress.samples_done >= 16:
            raise StopHere

    settings = repalign.ExtractSettings(
        str(shipped_path("gpt-neox-seed0")),
        "builtin:shakespeare",
        path,
        limit=24,
        pools=("token",),
        shard_samples=8,
    )
    try:
        repalign.extract(settings, on_progress=stop)
    except StopHere:
        assert not path.exists()
    result = repalign.extract(settings)
    assert result.rows_new < (result.n_rows or 0), "nothing was resumed"


def rows_of(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what is kept of every view: its size, digest of its values, and some of them."""
    for extraction in EXTRACTIONS:
        with repalign.open_store(folder / f"{extraction.name}.h5") as store:
            for name in store.views:
                values = store.view(name).read(0, len(store))
                corner = np.concatenate([values[:2, :6], values[-2:, :6]]).astype(np.float64)
                yield (
                    f"{extraction.name}::{name}",
                    {
                        "n_rows": len(values),
                        "dim": values.shape[1],
                        "dtype": str(values.dtype),
                        "sha256": hashlib.sha256(values.tobytes()).hexdigest(),
                        "rms": float(np.sqrt(np.mean(values.astype(np.float64) ** 2))),
                        "corner": corner.ravel().tolist(),
                    },
                )


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables of the environment inside the block."""
    with mock.patch.dict("os.environ", variables):
        yield
