"""What is frozen: commands with the files that they write, and extractions."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

SEED = 0


@dataclass(frozen=True)
class Command:
    """A command of which one file is kept.

    Attributes:
        name: Name of the case.
        words: The command, without ``repalign`` and ``-o``.
        output: Ending of the file: ``.json`` for the whole result, ``.csv`` or ``.html``.
        before: Names of cases whose files it reads.
    """

    name: str
    words: str
    output: str = ".json"
    before: tuple[str, ...] = ()


CHEAP = "--null 19 --rotations 19 --halves 10"

COMMANDS = (
    Command("demo-resnet", "compare resnet0.h5::final resnet1.h5::final --null 99 --rotations 3"),
    Command("demo-mae", "compare mae-hf.h5::final mae-timm.h5::final --null 49 --rotations 2"),
    Command("demo-gpt", "compare gpt0.h5 gpt1.h5 --null 19 --rotations 2 --halves 0 --starts 2"),
    Command("paper", "compare resnet0.h5::final resnet1.h5::final --paper"),
    Command("quick", "compare resnet0.h5::final resnet1.h5::final --quick"),
    Command("default", "compare x.npy y.npy"),
    Command("audit", "compare x.npy y.npy --audit"),
    Command("folds", f"compare x.npy y.npy --folds 5 {CHEAP}"),
    Command("both", f"compare x.npy wide.npy --both {CHEAP} --measures all"),
    Command("widths-pca", f"compare x.npy wide.npy --both --widths pca {CHEAP}"),
    Command("beyond-groups", f"compare x.npy y.npy --groups equal.txt --beyond-groups {CHEAP}"),
    Command("unequal-groups", f"compare x.npy y.npy --groups unequal.txt --measures all {CHEAP}"),
    Command(
        "all-maps",
        "compare x.npy y.npy --maps mean,identity,permutation,permutation+scale,rigid,"
        f"rigid-noscale,linear,ica,ica+scale,ica-components {CHEAP}",
    ),
    Command("measures", "compare x.npy y.npy --maps none --measures all --null 39"),
    Command(
        "study",
        "compare resnet0.h5 resnet1.h5 mae-timm.h5 --layers block-2,block-4,final "
        "--maps rigid,linear --measures linear-cka,mutual-knn --null 19 --halves 10",
    ),
    Command("disentangle", "disentangle x.npy --factors factors.csv --scores all --null 5"),
    Command(
        "deconfound",
        "deconfound cells.npy --table plates.csv --label treated --batch plate --folds 3",
    ),
    Command("report", "report study.json", ".html", before=("study",)),
)


def write_inputs(folder: Path) -> None:
    """Write the arrays and tables that commands read."""
    rng = np.random.default_rng(SEED)
    n = 240
    sources = rng.laplace(size=(n, 6)) * [3, 2, 1.5, 1, 1, 0.5]
    rotation = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    np.save(folder / "x.npy", sources @ np.linalg.qr(rng.standard_normal((6, 6)))[0])
    np.save(folder / "y.npy", sources @ rotation + 0.3 * rng.standard_normal((n, 6)))
    wide = np.hstack([sources, rng.standard_normal((n, 3))]) @ rng.standard_normal((9, 9))
    np.save(folder / "wide.npy", wide)
    write_lines(folder / "equal.txt", np.repeat(np.arange(n // 6), 6))
    sizes = rng.integers(1, 16, size=n)
    unequal = np.repeat(np.arange(n), sizes)[:n]
    write_lines(folder / "unequal.txt", unequal)
    shape = np.digitize(sources[:, 0], [-2, 0, 2])
    write_table(folder / "factors.csv", {"shape": shape, "size": sources[:, 1].round(6)})
    plate, treated = np.repeat(np.arange(6), 100), np.tile([0, 1], 300)
    cells = rng.standard_normal((600, 5)) + 0.5 * plate[:, None]
    cells[:, 2] += treated
    np.save(folder / "cells.npy", cells)
    write_table(folder / "plates.csv", {"plate": plate, "treated": treated})


def write_lines(path: Path, values: np.ndarray) -> None:
    """Write one value a line."""
    path.write_text("".join(f"{value}\n" for value in values))


def write_table(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Write a table with a header and numbered rows."""
    lines = [",".join(["id", *columns])]
    rows = zip(*columns.values(), strict=True)
    lines += [",".join(map(str, (number, *row))) for number, row in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
