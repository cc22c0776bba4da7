"""Images from files, decoded with limits."""

import hashlib
import io
import os
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repalign.data.files import find_files, listing_sha256, read_text
from repalign.data.samples import Sample
from repalign.exceptions import InputError
from repalign.files import open_regular

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
FORMATS = ("BMP", "JPEG", "PNG", "TIFF", "WEBP")
MAX_PIXELS = 50_000_000
MAX_FILE_BYTES = 256 * 2**20
_DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")

_opening = threading.Lock()


def decode_image(raw: bytes, name: str) -> "Image":
    """Decode an image completely, within limits of size and format.

    Raises InputError for other formats, damaged or truncated files, more than 50 million
    pixels, and for 16-bit or floating-point pixels, whose scaling to 8 bits is a choice.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        # Pillow only warns about an image bomb; the size is checked below, before decoding.
        # Warning filters are global, hence the lock; opening reads no more than the header.
        with _opening, warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(raw), formats=FORMATS)
        if image.width * image.height > MAX_PIXELS:
            raise InputError(
                f"{name} has {image.width}×{image.height} pixels; at most {MAX_PIXELS} are read"
            )
        if image.mode in _DEEP:
            raise InputError(
                f"{name} has pixels of kind {image.mode}; convert it to 8 bits per channel first"
            )
        image.load()
    except Image.DecompressionBombError as error:
        raise InputError(f"{name} is far too large: {error}") from error
    except UnidentifiedImageError as error:
        raise InputError(f"{name} is no image in a known format ({', '.join(FORMATS)})") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"{name} is damaged or truncated: {error}") from error
    return image


class ImageFiles:
    """Image files in a fixed order; the hash is that of the file."""

    def __init__(
        self, paths: Sequence[Path], ids: Sequence[str], description: dict[str, object]
    ) -> None:
        self._paths = tuple(paths)
        self._ids = tuple(ids)
        self._description = description

    @property
    def description(self) -> dict[str, object]:
        """What the data are, as plain values."""
        return self._description

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, index: int) -> Sample:
        """Return one sample."""
        path, name = self._paths[index], self._ids[index]
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                raise InputError(f"{name} has {size} bytes; at most {MAX_FILE_BYTES} are read")
            raw = file.read(MAX_FILE_BYTES)
        return Sample(name, hashlib.sha256(raw).digest(), decode_image(raw, name))


def open_image_tree(root: Path) -> ImageFiles:
    """All images below a directory, ordered by relative path, which is their id.

    Raises InputError when there are none.
    """
    paths = find_files(root, ENDINGS)
    ids = [path.relative_to(root).as_posix() for path in paths]
    description: dict[str, object] = {
        "format": "image tree",
        "name": root.resolve().name,
        "listing_sha256": listing_sha256(root, paths),
    }
    return ImageFiles(paths, ids, description)


def open_image_list(path: Path) -> ImageFiles:
    """Images named by a text file, one path per line, relative to that file.

    Anything after a tab is ignored; blank lines are passed over. The id is the path as written.

    Raises InputError for a path that is no file.
    """
    lines = read_text(path).splitlines()
    ids = [name for line in lines if (name := line.split("\t")[0].strip())]
    paths = [path.parent / name for name in ids]
    for name, file in zip(ids, paths, strict=True):
        if not file.is_file():
            raise InputError(f"{path.name} names {name!r}, which is no file; mend the list")
    description: dict[str, object] = {
        "format": "image list",
        "name": path.name,
        "listing_sha256": listing_sha256(path.parent, paths),
    }
    return ImageFiles(paths, ids, description)
