"""Opening the user's data, or data that need no download."""

from pathlib import Path

import numpy as np

from repalign.data.files import Decoding, find_files, listing_sha256, open_list, open_tree
from repalign.data.hub_datasets import HubDataset
from repalign.data.image_arrays import ArrayImages, is_idx, open_idx, open_npy, open_npz
from repalign.data.images import ENDINGS, decode_image
from repalign.data.read_options import ReadOptions, Unit
from repalign.data.samples import Chain, Kind, Source
from repalign.data.sounds import ENDINGS as SOUND_ENDINGS
from repalign.data.sounds import decode_sound
from repalign.data.text import JsonLines, TextFile
from repalign.data.text_tables import CsvColumn, ParquetColumn
from repalign.exceptions import InputError, reading
from repalign.files import check_regular

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


TEXT_ENDINGS = (".csv", ".jsonl", ".md", ".parquet", ".txt")
IMAGES = Decoding("image", ENDINGS, decode_image)
SOUNDS = Decoding("sound", SOUND_ENDINGS, decode_sound)
_LISTS = (".txt", ".lst")
_BUILTIN_PREFIX, _DATASETS_PREFIX = "builtin:", "datasets:"


def open_data(name: str, kind: Kind, options: ReadOptions | None = None) -> Source:
    """Open data for a model of the given kind.

    ``name`` is a file, a directory, ``builtin:digits``, ``builtin:shakespeare`` (or just the
    word, where no file is called that), or ``datasets:name[@split]``.

    Raises InputError when there is nothing of that kind.
    """
    options = options or ReadOptions()
    if name.startswith(_DATASETS_PREFIX):
        rest = name.removeprefix(_DATASETS_PREFIX)
        return HubDataset(rest, kind, options.column, options.id_column)
    path = Path(name).expanduser()
    word = name.removeprefix(_BUILTIN_PREFIX)
    if word in BUILTIN and (word != name or not path.exists()):
        if BUILTIN[word] != kind:
            raise InputError(f"{name} is {BUILTIN[word]} data, the model takes {kind} input")
        return open_builtin(word)
    if not path.exists():
        raise InputError(
            f"no data at {name}; expected a file, a directory, "
            f"{', '.join(f'builtin:{word}' for word in BUILTIN)} or datasets:name"
        )
    if not path.is_dir():
        check_regular(path)
    with reading(path):
        if kind == "audio":
            return _open_sounds(path)
        return _open_text(path, options) if kind == "text" else _open_images(path, options)


def _open_text(path: Path, options: ReadOptions) -> Source:
    if path.is_file():
        return _open_text_file(path, options, default="line")
    paths = find_files(path, TEXT_ENDINGS)
    description: dict[str, object] = {
        "format": f"text tree by {options.unit or 'file'}",
        "name": path.resolve().name,
        "listing_sha256": listing_sha256(path, paths),
        "column": options.column,
        "id_column": options.id_column,
    }
    names = [file.relative_to(path).as_posix() for file in paths]
    sources = [_open_text_file(file, options, default="file") for file in paths]
    return Chain(sources, names, description)


def _open_text_file(path: Path, options: ReadOptions, *, default: Unit) -> Source:
    ending = path.suffix.lower()
    if ending == ".jsonl":
        return JsonLines(path, options.column, options.id_column)
    if ending == ".csv":
        return CsvColumn(path, options.column, options.id_column)
    if ending == ".parquet":
        return ParquetColumn(path, options.column, options.id_column)
    if ending in (".txt", ".md"):
        return TextFile(path, options.unit or default)
    raise InputError(f"{path.name} is not a text file; expected {', '.join(TEXT_ENDINGS)}")


def _open_sounds(path: Path) -> Source:
    if path.is_dir():
        return open_tree(path, SOUNDS)
    if path.suffix.lower() in _LISTS:
        return open_list(path, SOUNDS)
    raise InputError(
        f"{path.name} is not a set of sounds; give a directory of {', '.join(SOUND_ENDINGS)} or "
        "a list of paths (.txt)"
    )


def _open_images(path: Path, options: ReadOptions) -> Source:
    if path.is_dir():
        return open_tree(path, IMAGES)
    if path.suffix.lower() == ".npz":
        return open_npz(path, options.column)
    if path.suffix.lower() == ".npy":
        return open_npy(path)
    if is_idx(path):
        return open_idx(path)
    if path.suffix.lower() in _LISTS:
        return open_list(path, IMAGES)
    raise InputError(
        f"{path.name} is not a set of images; expected a directory of {', '.join(ENDINGS)}, a list "
        "of paths (.txt), .npy, .npz, .h5, or IDX as MNIST ships it"
    )
