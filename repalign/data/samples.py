"""Inputs of a model, one by one: what a data source is, and choosing some of its samples."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

Kind = Literal["text", "image", "audio"]


@dataclass(frozen=True, eq=False)
class Sound:
    """One channel of sound between −1 and 1, and its samples per second."""

    values: NDArray[np.float32]
    rate: int


@dataclass(frozen=True, eq=False)
class Sample:
    """One input: its stable id, the SHA-256 of its raw bytes, and text, image or sound."""

    id: str
    sha256: bytes
    value: "str | Image | Sound"


def text_sample(label: str, text: str, where: str) -> Sample:
    """Return a text as a sample.

    Raises InputError for text with half a surrogate pair, which JSON can spell and UTF-8 cannot.
    """
    try:
        return Sample(label, hashlib.sha256(text.encode()).digest(), text)
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where} has half a surrogate pair at character {error.start}, which is not text; "
            "repair it"
        ) from error


def checked_label(value: object, column: str, where: str) -> str:
    """Return the value of a column of ids as text.

    Raises InputError for what is neither text nor a whole number, or empty.
    """
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise InputError(
            f"{where} has {value!r} in {column!r}; expected an id, a text or a whole number"
        )
    return str(value)


class Source(Protocol):
    """Samples in a fixed order, read one by one and from several threads at once."""

    @property
    def description(self) -> dict[str, object]:
        """What the data are, as plain values; equal for equal data wherever they lie."""
        ...

    def __len__(self) -> int:
        """Number of samples."""
        ...

    def read(self, index: int) -> Sample:
        """Return one sample."""
        ...


class Chain:
    """Several sources one after the other, as one; every id gets its source's name in front."""

    def __init__(
        self, sources: Sequence[Source], names: Sequence[str], description: dict[str, object]
    ) -> None:
        self._sources = tuple(sources)
        self._names = tuple(names)
        self._starts = np.cumsum([0, *(len(source) for source in sources)])
        self.description = description

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, index: int) -> Sample:
        """Return one sample."""
        which = int(np.searchsorted(self._starts, index, side="right")) - 1
        sample = self._sources[which].read(index - int(self._starts[which]))
        name = self._names[which]
        return Sample(f"{name}:{sample.id}" if sample.id else name, sample.sha256, sample.value)
