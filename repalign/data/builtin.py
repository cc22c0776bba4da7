"""Data that need no download: scikit-learn's digits and a text that ships with the package."""

from pathlib import Path

import numpy as np

from repalign.data.image_arrays import ArrayImages
from repalign.data.samples import Source
from repalign.data.text import TextFile

DIGITS, SHAKESPEARE = "digits", "shakespeare"
BUILTIN = {DIGITS: "image", SHAKESPEARE: "text"}


def open_builtin(name: str) -> Source:
    """Open built-in data: ``digits`` (1797 images, 8×8) or ``shakespeare`` (paragraphs)."""
    if name == SHAKESPEARE:
        return TextFile(Path(__file__).with_name("shakespeare.txt"), "paragraph")
    from sklearn.datasets import load_digits

    # grey levels are 0 to 16 there
    pixels = np.rint(load_digits().images * (255 / 16)).astype(np.uint8)
    return ArrayImages(pixels, {"format": "builtin", "name": DIGITS})
