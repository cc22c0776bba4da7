"""Digits on plates that did not exist, seen by a masked autoencoder that did not see any plate.

Plates differ in brightness, contrast and focus of their images, as plates under a microscope do;
half of the digits are drawn with a thicker stroke. Nothing is planted in the embeddings.
"""

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray
from repalign.experiments.digit_images import load_digits
from repalign.experiments.plates.plated import CONTROL, Plated
from repalign.files import writing

MODEL, PREPROCESS = "mae-transformers-seed0", "mae-timm-seed1"
THICK = "thicker stroke"
N_PLATES = 12
SIDE = 32
# What a thicker stroke adds of its neighbours' ink.
STRENGTH = 0.35


def simulate_plates(folder: Path, seed: int, *, device: str = "cpu") -> Plated:
    """Draw plates and perturbations, and return the embeddings of the images that result.

    Args:
        folder: Keeps the embeddings; those that are there are not made again.
        seed: Of plates and perturbations; the digits and the model stay.
        device: Where the model runs.
    """
    images, is_thick, plate = draw_plates(seed)
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{MODEL}-{hashlib.sha256(images.tobytes()).hexdigest()[:16]}.npy"
    if not kept.exists():
        values = _embedded(images, folder, device)
        with writing(kept) as whole, whole.open("wb") as file:
            np.save(file, values)
    done = np.where(is_thick, THICK, CONTROL)
    names = np.array([f"plate {number:02}" for number in plate])
    return Plated(np.load(kept, allow_pickle=False), done, names)


def _embedded(images: NDArray[np.uint8], folder: Path, device: str) -> FloatArray:
    """Return what the shipped model makes of images, the mean of their patches."""
    from repalign.extraction.run import extract
    from repalign.extraction.settings import ExtractSettings
    from repalign.store.open import open_embeddings
    from repalign.zoo.shipped import shipped_path

    # a folder of its own, since other processes may be at the same plates
    with TemporaryDirectory(dir=folder) as scratch:
        pixels, store = Path(scratch, "images.npy"), Path(scratch, "images.h5")
        with writing(pixels) as whole, whole.open("wb") as file:
            np.save(file, images)
        settings = ExtractSettings(
            model=str(shipped_path(MODEL)),
            data=str(pixels),
            output=store,
            pools=("mean",),
            preprocess=str(shipped_path(PREPROCESS)),
            device=device,
            offline=True,
        )
        extract(settings)
        rows = open_embeddings(store).rows
        return np.asarray(rows.read(0, rows.shape[0]), dtype=np.float64)


def draw_plates(
    seed: int,
) -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.int64]]:
    """Return the images, which of them are perturbed, and the number of the plate of each."""
    rng = np.random.default_rng([seed, 3])
    digits = load_digits(None).images
    grey = np.stack([_enlarged(image) for image in digits]) / 240
    plate = rng.integers(0, N_PLATES, len(grey))
    is_thick = rng.random(len(grey)) < 0.5
    grey[is_thick] = _thicker(grey[is_thick])
    contrast, brightness = rng.uniform(0.6, 1, N_PLATES), rng.uniform(0, 0.3, N_PLATES)
    blur = rng.uniform(0, 0.6, N_PLATES)[plate][:, None, None]
    grey = (1 - blur) * grey + blur * _blurred(grey)
    grey = grey * contrast[plate][:, None, None] + brightness[plate][:, None, None]
    return np.rint(255 * np.clip(grey, 0, 1)).astype(np.uint8), is_thick, plate


def _enlarged(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    from PIL import Image

    size = (SIDE, SIDE)
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BICUBIC))


def _thicker(grey: NDArray[np.float64]) -> NDArray[np.float64]:
    around = np.stack([np.roll(grey, step, axis) for axis in (1, 2) for step in (-2, 2)])
    thick: NDArray[np.float64] = np.maximum(grey, (1 - STRENGTH) * grey + STRENGTH * around.max(0))
    return thick


def _blurred(grey: NDArray[np.float64]) -> NDArray[np.float64]:
    around = [np.roll(grey, step, axis) for axis in (1, 2) for step in (-1, 1)]
    blurred: NDArray[np.float64] = (grey + sum(around)) / 5
    return blurred
