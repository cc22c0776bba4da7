"""ImageNet-X is read as it is shipped: annotations by the line, images beside or in folders."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from repalign.exceptions import InputError
from repalign.experiments.imagenet_x import ANNOTATIONS, FACTORS, find_imagenet_x, load_imagenet_x

N_IMAGES = 80


def photographs(folder: Path) -> Path:
    """Random images, a half of them bright, said to be of a random pose, all of one texture."""
    rng = np.random.default_rng(0)
    lines = []
    for number in range(N_IMAGES):
        name = f"ILSVRC2012_val_{number:08d}.JPEG"
        place = folder / f"n{number % 3:08d}"
        place.mkdir(parents=True, exist_ok=True)
        bright = number % 2
        levels = rng.integers(0, 120, (40, 48, 3)) + 120 * bright
        Image.fromarray(levels.astype(np.uint8)).save(place / name, format="JPEG")
        factors = {factor: int(rng.integers(2)) for factor in FACTORS}
        factors |= {"brighter": bright, "texture": 0}
        told = {"justification": "a picture", "one_word": "picture", "metaclass": "device"}
        lines.append(json.dumps({"file_name": name, "class": number} | factors | told))
    (folder / ANNOTATIONS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_images_are_found_in_folders_in_the_order_of_the_annotations(tmp_path: Path) -> None:
    folder = photographs(tmp_path)
    found = load_imagenet_x(folder)
    assert [image.name for image in found.images] == [
        f"ILSVRC2012_val_{number:08d}.JPEG" for number in range(N_IMAGES)
    ]
    assert all(image.is_file() for image in found.images)
    assert found.factors.shape == (N_IMAGES, 16)
    assert found.factors[:4, FACTORS.index("brighter")].tolist() == [0, 1, 0, 1]


def test_the_digest_follows_annotations_and_images(tmp_path: Path) -> None:
    folder = photographs(tmp_path)
    digests = {find_imagenet_x(folder).digest}
    (folder / "more.jpg").write_bytes(b"1")
    digests.add(find_imagenet_x(folder).digest)
    with (folder / ANNOTATIONS).open("a") as file:
        file.write("\n")
    assert len(digests | {find_imagenet_x(folder).digest}) == 3


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 81"),
        ("[1]", "line 81"),
        (json.dumps({"file_name": "x.JPEG"}), "line 81"),
        (json.dumps({"file_name": "x"} | dict.fromkeys(FACTORS, 0)), "1 of the 81"),
        (
            json.dumps({"file_name": "ILSVRC2012_val_00000000.JPEG"} | dict.fromkeys(FACTORS, 2)),
            "0 or 1",
        ),
    ],
)
def test_what_is_no_annotation_is_refused(line: str, says: str, tmp_path: Path) -> None:
    folder = photographs(tmp_path)
    with (folder / ANNOTATIONS).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match=says) as told:
        load_imagenet_x(folder)
    assert "\n" not in str(told.value)


def test_a_folder_without_annotations_or_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no files"):
        find_imagenet_x(tmp_path)
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=ANNOTATIONS):
        find_imagenet_x(tmp_path)
