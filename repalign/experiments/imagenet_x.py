"""ImageNet-X: photographs of ImageNet's validation set, and what people say is unusual in each."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from repalign.aliases import FloatArray
from repalign.data.files import find_files, listing_sha256, read_text
from repalign.exceptions import InputError, reading
from repalign.experiments.reproduce.given_data import GivenData
from repalign.files import file_sha256

NAME = "ImageNet-X"
ANNOTATIONS = "imagenet_x_val_multi_factor.jsonl"
FACTORS = (
    "multiple_objects", "background", "color", "brighter", "darker", "style", "larger", "smaller",
    "object_blocking", "person_blocking", "partial_view", "pattern", "pose", "shape",
    "subcategory", "texture",
)  # fmt: skip
PHOTOGRAPHS = (".jpeg", ".jpg", ".png")


@dataclass(frozen=True, eq=False)
class AnnotatedImages:
    """Images, and by factor of ``FACTORS`` whether each is said to be unusual in it (1, or 0)."""

    images: tuple[Path, ...]
    factors: FloatArray


def find_imagenet_x(folder: Path) -> GivenData:
    """Tell which images these are.

    Raises:
        InputError: The folder holds no annotations of ImageNet-X, or no images.
    """
    listed = listing_sha256(folder, find_files(folder, PHOTOGRAPHS))
    return GivenData(NAME, folder, f"{file_sha256(_annotations(folder))} {listed}")


def load_imagenet_x(folder: Path) -> AnnotatedImages:
    """Return the annotated images, in the order of the annotations; they may lie in folders.

    Raises:
        InputError: The annotations are of another kind, or images of theirs are not there.
    """
    path = _annotations(folder)
    places = {image.name: image for image in find_files(folder, PHOTOGRAPHS)}
    names, values = [], []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        expected = f"file_name and the {len(FACTORS)} factors of ImageNet-X, each 0 or 1"
        with reading(
            f"{path}, line {number}", ValueError, RecursionError, problem=f"expected {expected}"
        ):
            record = json.loads(line)
        entries = record if isinstance(record, dict) else {}
        row = [entries.get(factor) for factor in FACTORS]
        if "file_name" not in entries or not all(isinstance(v, int | float) for v in row):
            raise InputError(f"{path}, line {number}: expected {expected}")
        if not all(value in (0, 1) for value in row):
            raise InputError(f"{path}, line {number}: expected factors that are 0 or 1")
        names.append(str(entries["file_name"]))
        values.append(row)
    missing = [name for name in names if name not in places]
    if missing or not names:
        raise InputError(
            f"{folder}: {len(missing)} of the {len(names)} annotated images are not there"
            + (f", {missing[0]} first" if missing else "")
            + "; put ImageNet's validation images next to the annotations"
        )
    factors = np.array(values, dtype=np.float64)
    return AnnotatedImages(tuple(places[name] for name in names), factors)


def _annotations(folder: Path) -> Path:
    path = folder / ANNOTATIONS
    if not path.is_file():
        raise InputError(f"{folder}: holds no {ANNOTATIONS}, the annotations of ImageNet-X")
    return path
