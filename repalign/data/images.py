"""Images from files, decoded with limits."""

import io
import struct
import threading
import warnings
from typing import TYPE_CHECKING

from repalign.exceptions import InputError, first_line
from repalign.limits import MAX_PIXELS

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
FORMATS = ("BMP", "JPEG", "PNG", "TIFF", "WEBP")
_DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")

# What Pillow raises for files that are damaged; its own search for a format expects the same.
_DAMAGED = (OSError, EOFError, SyntaxError, ValueError, IndexError, TypeError, struct.error)

_opening = threading.Lock()


def decode_image(raw: bytes, name: str) -> "Image":
    """Decode an image completely, within limits of size and format.

    Raises InputError for other formats, damaged or truncated files, more than 50 million
    pixels, and for 16-bit or floating-point pixels, whose scaling to 8 bits is a choice.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        # Pillow only warns about an image bomb; the size is checked below, before decoding. It
        # also warns of damaged EXIF data, which are not used. Warning filters are global, hence
        # the lock; opening reads no more than the header.
        with _opening, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(raw), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise InputError(f"{name} is far too large: {error}") from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"{name} is not an image of a known format ({', '.join(FORMATS)})"
        ) from error
    except _DAMAGED as error:
        raise _damaged(name, error) from error
    if image.width * image.height > MAX_PIXELS:
        raise InputError(
            f"{name} has {image.width}×{image.height} pixels; at most {MAX_PIXELS} are read"
        )
    if image.mode in _DEEP:
        raise InputError(
            f"{name} has pixels of kind {image.mode}; convert it to 8 bits per channel first"
        )
    try:
        image.load()
    except _DAMAGED as error:
        raise _damaged(name, error) from error
    return image


def _damaged(name: str, error: Exception) -> InputError:
    return InputError(f"{name} is damaged or truncated: {first_line(error)}")
