"""Cell Painting profiles in GCT 1.3 files: wells in columns, labels above features."""

import gzip
import re
import zlib
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from repalign.exceptions import InputError, reading
from repalign.experiments.plates.plated import CONTROL, Plated
from repalign.files import open_regular

# The published files spell one of their headers without its first letter.
TREATMENT = ("treatment", "reatment")
PLATE = "Plate"
VEHICLE = "DMSO"
_DRUG = "bortezomib"

_Columns = dict[str, list[str]]


def read_profiles(paths: Sequence[Path]) -> Plated:
    """Return the wells of all files with the features that all of them have.

    Wells with bortezomib, of whatever dose, count as perturbed; those with DMSO as control; others
    are left out.

    Raises:
        InputError: A file is not GCT 1.3, lacks a label or a number, or no feature is shared.
    """
    tables = [_read(path) for path in paths]
    shared = [name for name in tables[0][1] if all(name in features for _, features in tables[1:])]
    if not shared:
        raise InputError(f"the files of {paths[0].parent} share no feature; expected some")
    values, done, plates = [], [], []
    for path, (labels, features) in zip(paths, tables, strict=True):
        treatment = next((labels[name] for name in TREATMENT if name in labels), None)
        if treatment is None or PLATE not in labels:
            raise InputError(f"{path.name} has no labels {TREATMENT[0]} and {PLATE}")
        kinds = [_kind(text) for text in treatment]
        kept = [number for number, kind in enumerate(kinds) if kind]
        try:
            rows = np.array([features[name] for name in shared], dtype=np.float64).T
        except ValueError as error:
            raise InputError(f"{path.name}: {error}; expected numbers in every well") from error
        values.append(rows[kept])
        done += [kinds[number] for number in kept]
        plates += [labels[PLATE][number] for number in kept]
    return Plated(np.concatenate(values), np.array(done), np.array(plates))


def _kind(text: str) -> str:
    if _DRUG in text:
        return _DRUG
    return CONTROL if VEHICLE in text else ""


def _read(path: Path) -> tuple[_Columns, _Columns]:
    """Return labels and features of the wells, by name."""
    problem = "not a readable GCT 1.3 file"
    with (
        open_regular(path) as plain,
        gzip.open(plain) if path.suffix == ".gz" else nullcontext(plain) as file,
        reading(path.name, OSError, EOFError, zlib.error, UnicodeDecodeError, problem=problem),
    ):
        text = file.read().decode()
    lines = [line.rstrip("\n").split("\t") for line in text.splitlines()]
    first_cell = lines[0][0] if lines else ""
    if first_cell != "#1.3":
        raise InputError(f"{path.name}: {problem}: begins with {first_cell[:20]!r}")
    sizes = lines[1][:4] if len(lines) > 2 else []
    if len(sizes) != 4 or not all(re.fullmatch(r"\d{1,9}", size) for size in sizes):
        raise InputError(f"{path.name}: {problem}: expected four sizes in its second line")
    first, split = 1 + int(sizes[2]), 3 + int(sizes[3])
    table = {line[0]: line[first:] for line in lines[3:]}
    if len(table) < len(lines) - 3 or len({len(row) for row in table.values()}) != 1:
        raise InputError(
            f"{path.name}: {problem}: rows of unequal length, or names that occur twice"
        )
    names = [line[0] for line in lines[3:]]
    labels = {name: table[name] for name in names[: split - 3]}
    return labels, {name: table[name] for name in names[split - 3 :]}
