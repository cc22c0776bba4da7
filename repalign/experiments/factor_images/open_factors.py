"""Which data set with known factors lies at a path, and drawing images from it."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from repalign.data.sprites import SHAPES, sample_sprites
from repalign.exceptions import InputError
from repalign.experiments.factor_images.arrays import read_dsprites, read_mpi3d
from repalign.experiments.factor_images.images import FactorImages
from repalign.experiments.factor_images.rendered import (
    IMAGES,
    NAMES,
    labels_file,
    n_factors,
    read_rendered,
)
from repalign.experiments.factor_images.shapes3d import read_shapes3d
from repalign.experiments.reproduce.given_data import GivenData, digest_of

# What a linear reading of a small code can tell: an orientation is a circle, for an ellipse one of
# half a turn, and a shape is not a place on a line.
UPRIGHT = {"shape": SHAPES.index("ellipse"), "orientation": 0}
SPRITES = "upright ellipses drawn by repalign (scale, x, y, colour)"
Read = Callable[[Path, int | None, int], FactorImages]
# By pattern of the file; images with labels in a folder of their own are told apart otherwise.
FILES: dict[str, tuple[str, Read]] = {
    "3dshapes*.h5": ("Shapes3D", read_shapes3d),
    "mpi3d_toy*.npz": ("MPI3D toy", read_mpi3d),
    "mpi3d_realistic*.npz": ("MPI3D realistic", read_mpi3d),
    "mpi3d_real.npz": ("MPI3D real", read_mpi3d),
    # what Hsu et al. (2023) take
    "mpi3d_real_complex*.npz": ("MPI3D", read_mpi3d),
    "real3d_complicated*.npz": ("MPI3D", read_mpi3d),
    "dsprites_ndarray*.npz": ("dSprites", read_dsprites),
}


def find_factor_images(path: Path | None) -> GivenData:
    """Tell which data set lies at a path; the project's own sprites stand in for none.

    Raises:
        InputError: None that is known.
    """
    if path is None:
        return GivenData(SPRITES)
    name, file, _ = _known(path)
    if name not in NAMES.values():
        return GivenData(name, path, digest_of([file]))
    images = sorted((file.parent / IMAGES).glob("*.png"))
    sizes = " ".join(f"{image.name} {image.stat().st_size}" for image in images)
    listing = hashlib.sha256(sizes.encode()).hexdigest()
    return GivenData(name, path, digest_of([file]) + listing)


def read_factor_images(data: GivenData | None, n_images: int | None, seed: int) -> FactorImages:
    """Draw images of data that ``find_factor_images`` told; all of them if ``n_images`` is None.

    Raises:
        InputError: They cannot be read, or sprites are asked for without a number.
    """
    if data is not None and data.path is not None:
        _, file, read = _known(data.path)
        return read(file, n_images, seed)
    if n_images is None:
        raise InputError("sprites are drawn one by one; give a data set (--data) to take it whole")
    sprites = sample_sprites(n_images, seed=seed, side=32, fixed=UPRIGHT)
    free = {name: codes for name, codes in sprites.factors.items() if name not in UPRIGHT}
    return FactorImages(sprites.images, free)


def _known(path: Path) -> tuple[str, Path, Read]:
    for pattern, (name, read) in FILES.items():
        found = [path] if path.match(pattern) else sorted(path.glob(pattern))
        if found:
            return name, found[0], read
    labels = labels_file(path) if path.is_dir() else None
    if labels is not None:
        return NAMES[n_factors(labels)], labels, read_rendered
    raise InputError(
        f"{path} holds no data set with known factors; expected {', '.join(FILES)}, or a folder "
        f"{IMAGES}/ next to labels.npy or train-rec.labels (Falcor3D, Isaac3D)"
    )
