from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from repalign.exceptions import InputError
from repalign.experiments.factor_images.arrays import read_mpi3d
from repalign.experiments.factor_images.open_factors import (
    SPRITES,
    find_factor_images,
    read_factor_images,
)
from repalign.experiments.factor_images.rendered import read_rendered
from repalign.experiments.factor_images.shapes3d import FACTORS
from repalign.experiments.reproduce.given_data import GivenData

RNG = np.random.default_rng(0)


def pictures(n: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, 256, (n, *shape)).astype(np.uint8)


def shapes3d(folder: Path, n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    images = pictures(n, 4, 4, 3)
    labels = RNG.integers(0, 3, (n, len(FACTORS))) / 10
    with h5py.File(folder / "3dshapes.h5", "w") as file:
        file.create_dataset("images", data=images, compression="gzip", chunks=(4, 4, 4, 3))
        file.create_dataset("labels", data=labels)
    return images, labels


def test_sprites_of_our_own_stand_in_and_say_so() -> None:
    data = find_factor_images(None)
    assert data.name == SPRITES
    found = read_factor_images(data, 5, 0)
    assert found.images.shape == (5, 32, 32, 3)
    assert list(found.factors) == ["scale", "x", "y", "colour"]
    with pytest.raises(InputError, match="data set"):
        read_factor_images(data, None, 0)


def test_shapes3d_is_drawn_by_row_with_levels_of_its_labels(tmp_path: Path) -> None:
    images, labels = shapes3d(tmp_path)
    data = find_factor_images(tmp_path)
    assert data.name == find_factor_images(tmp_path / "3dshapes.h5").name == "Shapes3D"
    whole = read_factor_images(data, None, 0)
    assert np.array_equal(whole.images, images)
    assert tuple(whole.factors) == FACTORS
    assert whole.factors["scale"].tolist() == np.rint(10 * labels[:, 3]).astype(int).tolist()
    some = read_factor_images(data, 7, 1)
    rows = [np.flatnonzero((images == image).all(axis=(1, 2, 3)))[0] for image in some.images]
    assert rows == sorted(set(rows))
    assert np.array_equal(some.factors["floor hue"], whole.factors["floor hue"][rows])


def test_the_place_of_an_image_of_mpi3d_is_its_factors(tmp_path: Path) -> None:
    path = tmp_path / "mpi3d_real_complex_shapes.npz"
    levels = (2, 1, 2, 1, 3, 2, 4)
    images = pictures(96, 2, 2, 3)
    np.savez_compressed(path, images=images)
    assert find_factor_images(tmp_path).name == "MPI3D"
    found = read_mpi3d(path, None, 0, {96: levels})
    assert np.array_equal(found.images, images)
    codes = np.stack(list(found.factors.values()), axis=1)
    assert codes.tolist() == [list(code) for code in np.ndindex(*levels)]
    some = read_mpi3d(path, 10, 0, {96: levels})
    rows = np.ravel_multi_index(np.stack(list(some.factors.values())), levels)
    assert np.array_equal(some.images, images[rows])
    with pytest.raises(InputError, match=r"96 images.* 1,036,800 or 460,800"):
        read_mpi3d(path, 10, 0)


def test_dsprites_have_five_factors_and_white_shapes(tmp_path: Path) -> None:
    images, classes = RNG.integers(0, 2, (40, 4, 4)), RNG.integers(0, 3, (40, 6))
    np.savez(
        tmp_path / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
        imgs=images.astype(np.uint8),
        latents_classes=classes,
        metadata=np.array({"title": "never read"}, dtype=object),
    )
    data = find_factor_images(tmp_path)
    assert data.name == "dSprites"
    found = read_factor_images(data, None, 0)
    assert found.images.shape == (40, 4, 4, 3)
    assert np.array_equal(found.images[..., 1], 255 * images)
    assert list(found.factors) == ["shape", "scale", "orientation", "x", "y"]
    assert np.array_equal(found.factors["y"], classes[:, 5])


@pytest.mark.parametrize(
    ("name", "n_factors", "labels"),
    [("Falcor3D", 7, "train-rec.labels"), ("Isaac3D", 9, "labels.npy")],
)
def test_rendered_rooms_are_images_beside_labels(
    name: str, n_factors: int, labels: str, tmp_path: Path
) -> None:
    values = RNG.integers(0, 3, (6, n_factors)) / 2
    with (tmp_path / labels).open("wb") as file:
        np.save(file, values)
    (tmp_path / "images").mkdir()
    for number in range(6):
        flat = np.full((8, 8, 3), 40 * number, dtype=np.uint8)
        Image.fromarray(flat).save(tmp_path / "images" / f"{number:06}.png")
    data = find_factor_images(tmp_path)
    assert data.name == name
    found = read_rendered(tmp_path / labels, 4, 0, side=4)
    assert found.images.shape == (4, 4, 4, 3)
    rows = found.images[:, 0, 0, 0] // 40
    assert len(found.factors) == n_factors
    first = next(iter(found.factors.values()))
    assert np.array_equal(first, np.unique(values[:, 0], return_inverse=True)[1][rows])
    (tmp_path / "images" / "000000.png").unlink()
    with pytest.raises(InputError, match=r"000000\.png"):
        read_factor_images(data, None, 0)


def test_what_is_no_known_data_set_or_damaged_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3dshapes"):
        find_factor_images(tmp_path)
    path = tmp_path / "dsprites_ndarray.npz"
    np.savez(path, latents_classes=np.zeros((5, 6), dtype=int), imgs=pictures(4, 2, 2))
    with pytest.raises(InputError, match=r"'imgs' .*\(4, 2, 2\)"):
        read_factor_images(GivenData("dSprites", path), 2, 0)
    np.savez(path, latents_classes=np.zeros((5, 3), dtype=int))
    with pytest.raises(InputError, match=r"\(5, 3\)"):
        read_factor_images(GivenData("dSprites", path), 2, 0)
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InputError, match="dsprites"):
        read_factor_images(GivenData("dSprites", path), 2, 0)
