"""Everything that repalign raises on purpose.

RepalignError              base class: catch this one to catch them all
├── InputError             an argument or user file that cannot be used (shape, NaN, unknown name)
│   └── SeveralViewsError  a file of several views, of which one was to be named
├── StoreError             an embedding store that is damaged, hostile, or of another version
│   └── RowMismatchError   two stores whose rows are not the same inputs
├── ModelError             a checkpoint, layer or preprocessing that cannot be used
├── ConvergenceError       an iterative fit that was required to converge and did not
├── MissingExtraError      an optional dependency that is needed here and is not installed
└── GateError              a threshold that the user asked to hold and that does not (exit code 3)

A message is one line: what was got, what was expected, what to do. It may hold names and values
from files, so that every message is made one printable line here, whoever wrote it.
"""

from collections.abc import Mapping, Sequence

from repalign.printable import printable


class RepalignError(Exception):
    """Base class of every expected failure."""

    exit_code = 1

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(" ".join(str(message).splitlines())))


class InputError(RepalignError):
    """An argument or a user's file cannot be used."""


class SeveralViewsError(InputError):
    """A file holds several views and none was named; ``shapes`` are of all its arrays."""

    def __init__(
        self,
        message: str,
        views: Sequence[str] = (),
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        super().__init__(message)
        self.views = tuple(views)
        self.shapes = dict(shapes or {})


class StoreError(RepalignError):
    """An embedding store is damaged, hostile, incomplete, or of an unknown version."""


class RowMismatchError(StoreError):
    """Two stores do not hold the same rows."""


class ModelError(RepalignError):
    """A checkpoint, a layer or a preprocessing cannot be used."""


class ConvergenceError(RepalignError):
    """An iterative fit was required to converge and did not."""


class MissingExtraError(RepalignError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}, which is not installed; "
            f"install it with: pip install 'repalign[{extra}]'"
        )


class GateError(RepalignError):
    """A threshold that was asked to hold does not hold."""

    exit_code = 3
