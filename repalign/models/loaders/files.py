"""The files of a checkpoint: what is loaded is what is hashed, and lies inside its directory."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from repalign.exceptions import ModelError
from repalign.files import file_sha256, open_regular
from repalign.models.loaders.weights import read_state_dict
from repalign.printable import byte_size

SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")

_MAX_CONFIG = 2**20
_MAX_INDEX = 2**26
_SHARD = re.compile(r"\w[\w.-]*\.(safetensors|bin)", re.ASCII)
# What a library may open in a directory that it is given.
_OPENED = {".json", ".jinja", ".txt", ".model", ".safetensors", ".bin", ".pt", ".pth"}


def read_json(path: Path, *, limit: int = _MAX_CONFIG) -> dict[str, Any]:
    """Read a small JSON object from a regular file.

    Raises ModelError when the file is missing, large, no regular file, or no object.
    """
    value = _read(path, limit)
    if not isinstance(value, dict):
        raise ModelError(f"{path.name} holds a {type(value).__name__}, expected an object")
    return value


def _read(path: Path, limit: int) -> Any:
    if not path.exists():
        raise ModelError(
            f"no {path.name} in {path.parent.name}/; give a directory saved by transformers "
            "(save_pretrained) or in timm's format"
        )
    with open_regular(path, failure=ModelError) as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise ModelError(f"{path.name} is larger than {byte_size(limit)}; that is no config")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path.name} in {path.parent.name}/ is not readable JSON") from error


def read_list(path: Path) -> list[dict[str, Any]]:
    """Read a small JSON list of objects from a regular file.

    Raises ModelError as ``read_json``, and for anything but such a list.
    """
    value = _read(path, _MAX_CONFIG)
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ModelError(f"{path.name} in {path.parent.name}/ is no list of objects")
    return value


def check_directory(directory: Path) -> None:
    """Refuse a directory with something that a library could open and should not.

    Links may lead anywhere inside; a snapshot of the hub's cache also into the blobs beside it,
    which is how that cache is made.

    Raises ModelError for links to outside, for pipes, sockets and devices.
    """
    inside = directory.resolve()
    blobs = inside.parent.parent / "blobs" if inside.parent.name == "snapshots" else None
    for path in sorted(directory.iterdir()):
        if path.suffix.lower() not in _OPENED:
            continue
        target = path.resolve()
        if not target.exists():
            continue  # a link to nothing is as good as no file
        if not (target.is_file() or target.is_dir()):
            raise ModelError(f"{path.name} in {directory.name}/ is no regular file; remove it")
        if not (target.is_relative_to(inside) or target.parent == blobs):
            raise ModelError(
                f"{path.name} in {directory.name}/ is a link to outside of that directory; "
                "put a copy there, or give the directory that it leads to"
            )


def shard_names(index: Path, name: str) -> list[str]:
    """Return the files that an index of shards names, each a plain name.

    Raises ModelError for a name that could mean a file elsewhere, and for an index of another
    form.
    """
    places = read_json(index, limit=_MAX_INDEX).get("weight_map")
    if not isinstance(places, Mapping) or not places:
        raise ModelError(f"{index.name} of {name} has no weight_map; it is no index of shards")
    shards = sorted({str(shard) for shard in places.values()})
    for shard in shards:
        if not _SHARD.fullmatch(shard):
            raise ModelError(
                f"{index.name} of {name} names a shard {shard!r} outside its directory"
            )
    return shards


class Checkpoint:
    """The weights of a directory: one file, or an index and its shards.

    Raises ModelError when there are none, or when a shard is missing.
    """

    def __init__(
        self, directory: Path, name: str, candidates: tuple[str, ...] = (*SAFETENSORS, *PICKLES)
    ) -> None:
        check_directory(directory)
        self._name = name
        first = next((directory / f for f in candidates if (directory / f).is_file()), None)
        if first is None:
            raise ModelError(
                f"{name} has a config.json and no weights; expected one of {', '.join(candidates)}"
            )
        self._index = first if first.suffix == ".json" else None
        self._weights = [first]
        if self._index is not None:
            self._weights = [directory / shard for shard in shard_names(first, name)]
        for path in self._weights:
            if not path.is_file():
                raise ModelError(f"{name} lacks the shard {path.name} that its index names")

    @property
    def size(self) -> int:
        """Bytes of the weights."""
        return sum(path.stat().st_size for path in self._weights)

    def read(self) -> dict[str, Tensor]:
        """Read all tensors by name.

        Raises ModelError for files that cannot be read safely, and for a name given twice.
        """
        tensors: dict[str, Tensor] = {}
        for path in self._weights:
            found = read_state_dict(path)
            twice = sorted(tensors.keys() & found.keys())
            if twice:
                raise ModelError(f"two shards of {self._name} hold {twice[0]}")
            tensors |= found
        return tensors

    def hashes(self, *others: Path) -> dict[str, str]:
        """SHA-256 by name of everything that was read, ``others`` included."""
        files = [*self._weights, *others, *([self._index] if self._index else [])]
        return {path.name: file_sha256(path) for path in files}
