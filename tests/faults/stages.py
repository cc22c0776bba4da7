"""The commands that are killed: what they are asked, and what they write."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import repalign

MODEL = Path(repalign.__file__).parent / "zoo" / "weights" / "gpt-neox-seed0"
RECORDED = "recorded.json"
CHEAP = ["--maps", "mean,rigid", "--null", "0", "--rotations", "0"]


@dataclass(frozen=True)
class Stage:
    """A command with what it writes.

    Args:
        name: what is killed.
        line: its words; none for the writer of a store, called from Python.
        outputs: files that appear.
        old: whether a file of the same name is there before, which stays or is replaced.
        is_store: whether the first output is a store, of which the rows count.
        is_folder: whether the first output is a folder that is whole or is not there.
        workers: whether it has other processes do the work; one of them may be killed alone,
            which is then said.
        prepare: called before the command, in its process.
        share: how often its turn comes.
    """

    name: str
    line: tuple[str, ...]
    outputs: tuple[str, ...]
    old: bool = False
    is_store: bool = False
    is_folder: bool = False
    workers: bool = False
    prepare: Callable[[], None] | None = None
    share: int = 1
    found: dict[str, Any] = field(default_factory=dict, compare=False)


def stages() -> list[Stage]:
    """Return what is killed: every command that writes, and the shards and packing of stores."""
    extract = ("extract", str(MODEL), "--data", "texts.txt", "--shard-samples", "4", "--offline")
    compare = ("compare", "a.h5", "b.h5", *CHEAP)
    folds = ("deconfound", "a.h5", "--table", "factors.csv", "--label", "f", "--batch", "batch")
    return [
        Stage("writer", (), ("run.h5",), is_store=True, share=12),
        Stage("extract", (*extract, "-o", "new.h5"), ("new.h5",), is_store=True, share=2),
        Stage("extract shards", (*extract, "-o", "new"), ("new",), is_store=True),
        Stage("pack", ("store", "pack", "shards", "new.h5"), ("new.h5",),
              is_store=True, share=3),
        Stage("import", ("store", "import", "a.npy", "new.h5"), ("new.h5",),
              is_store=True, share=3),
        Stage("export npz", ("store", "export", "a.h5", "new.npz", "--overwrite"), ("new.npz",),
              old=True),
        Stage("export npy", ("store", "export", "a.h5", "new.npy", "--overwrite"),
              ("new.npy", "new.ids.txt")),
        Stage("compare", (*compare, "-o", "new.csv"), ("new.csv",), old=True),
        Stage("saved maps", (*compare, "-o", "new.csv", "--save-maps", "maps"),
              ("new.csv", "maps")),
        Stage("report", ("report", "result.csv", "-o", "new.html"), ("new.html",), old=True),
        Stage("apply", ("apply", "map.safetensors", "a.h5", "-o", "new.h5"), ("new.h5",),
              is_store=True),
        Stage("folds", (*folds, "-o", "new.csv"), ("new.csv",)),
    ]  # fmt: skip


def long_stages() -> list[Stage]:
    """Return what goes on where it was stopped: finished units, folds, cases and steps."""
    study = ("compare", "a.h5", "b.h5", "--maps", "rigid,ica", "--null", "4", "--halves", "2")
    factors = (
        "disentangle",
        "a.h5",
        "--factors",
        "factors.csv",
        "--factor",
        "label",
        "--null",
        "2",
        "--halves",
        "2",
    )
    folds = ("deconfound", "a.h5", "--table", "factors.csv", "--label", "f", "--batch", "batch")
    fitted = ("--save-transform", "fitted", "--overwrite", "-o", "new.csv")
    return [
        Stage("rerun", ("rerun", RECORDED, "--check", "-o", "new.csv"), ("new.csv",), old=True),
        Stage("compare, cached", (*study, "-o", "new.csv"), ("new.csv",)),
        Stage("disentangle", (*factors, "--plot", "new.png", *fitted),
              ("new.csv", "new.png", "fitted")),
        Stage("deconfound", (*folds, *fitted), ("new.csv", "fitted")),
        Stage("folds", (*folds, "--workers", "2", "-o", "new.csv"),
              ("new.csv",)),
        Stage("zoo train", ("zoo", "train", "resnet", "-o", "trained"), ("trained",),
              is_folder=True, prepare=_train_little),
        Stage("reproduce", ("reproduce", "gaussian-null", "--seeds", "2", "-o", "again"),
              ("again/results.csv", "again/summary.csv", "again/figure.png"),
              prepare=_reproduce_little),
        Stage("compare, workers", (*study, "--workers", "2", "-o", "new.csv"), ("new.csv",),
              workers=True),
    ]  # fmt: skip


def _train_little() -> None:
    from repalign.zoo.recipe import RECIPES

    RECIPES["resnet"] = replace(
        RECIPES["resnet"], steps=8, batch_size=8, warmup_steps=2, checkpoint_steps=2, width=8
    )


def _reproduce_little() -> None:
    from repalign.experiments.papers import gaussian_null
    from repalign.experiments.reproduce.experiment import Preset

    cases = [
        gaussian_null.NullCase(f"{sources}, 4 columns", sources, 4, 100)
        for sources in ("gaussian", "laplace")
    ]
    gaussian_null.EXPERIMENT = replace(
        gaussian_null.EXPERIMENT,
        presets={"small": Preset(tuple(cases), n_seeds=2, seconds_per_seed=1)},
        published=(),
    )
