"""The data that an experiment is run on: the user's own, or what comes along."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repalign.files import file_sha256


@dataclass(frozen=True)
class GivenData:
    """Data by what they are, wherever they lie.

    Attributes:
        name: As tables call them; published numbers of a data set stand next to its name alone.
        path: The user's file or folder; None for data that come along.
        digest: Of the content; together with case and seed it settles the numbers.
    """

    name: str
    path: Path | None = None
    digest: str = ""


def digest_of(paths: Sequence[Path]) -> str:
    """Return a digest of the content of files, in this order."""
    return hashlib.sha256(" ".join(map(file_sha256, paths)).encode()).hexdigest()
