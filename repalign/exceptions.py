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
from files, so that every message is made one printable line here, whoever wrote it; of one that
fills the screen the middle is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from repalign.printable import printable

_SHOWN = 200
_LONGEST = 2000


def first_line(error: BaseException) -> str:
    """Return the first line of what an exception of a library says, or its name if it says nothing.

    A line that only announces the next has it behind.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    told = " ".join(map(str.strip, lines[:2])) if lines[0].endswith(":") else lines[0]
    return told[:_SHOWN]


@contextmanager
def reading(
    name: object,
    *errors: type[Exception],
    problem: str = "cannot be read",
    failure: "type[RepalignError] | None" = None,
) -> Iterator[None]:
    """Map the named exceptions of a library, raised at its call.

    The block holds the call of the library and nothing of this package: an exception that is not
    named is a bug of ours. It passes with a note of the file, and so does everything without
    ``errors``.

    Args:
        name: the file, or what is read in it.
        errors: what the library raises for a file that it cannot read.
        problem: what is wrong with the file then.
        failure: what to raise then; by default an InputError.
    """
    try:
        yield
    except RepalignError:
        raise
    except errors as error:
        raise (failure or InputError)(f"{name}: {problem} ({first_line(error)})") from error
    except Exception as error:
        note = f"while reading {name}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


class RepalignError(Exception):
    """Base class of every expected failure.

    Example:
        >>> import numpy as np, repalign
        >>> try:
        ...     repalign.compare(np.eye(3), np.eye(4))
        ... except RepalignError as error:  # all that is raised on purpose
        ...     type(error).__name__
        'RowMismatchError'
    """

    exit_code = 1

    def __init__(self, message: object = "") -> None:
        text = str(message)
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
        super().__init__(printable(" ".join(text.splitlines())))


class InputError(RepalignError):
    """An argument or a user's file cannot be used.

    Example:
        >>> import numpy as np, repalign
        >>> repalign.compare(np.eye(3), np.eye(3), seed="one")
        Traceback (most recent call last):
        repalign.exceptions.InputError: seed: got 'one', expected a whole number
    """


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
    """An embedding store is damaged, hostile, incomplete, or of an unknown version.

    Example:
        >>> import repalign
        >>> repalign.open_store("nowhere.h5")
        Traceback (most recent call last):
        repalign.exceptions.StoreError: nowhere.h5: ...
    """


class RowMismatchError(StoreError):
    """Two stores do not hold the same rows.

    Example:
        >>> import numpy as np, repalign
        >>> one = repalign.as_source(np.eye(2), ids=["a", "b"])
        >>> other = repalign.as_source(np.eye(2), ids=["a", "c"])
        >>> repalign.join_sources([one, other])
        Traceback (most recent call last):
        repalign.exceptions.RowMismatchError: ...
    """


class ModelError(RepalignError):
    """A checkpoint, a layer or a preprocessing cannot be used.

    Example:
        >>> from pathlib import Path
        >>> import repalign
        >>> Path("empty").mkdir()
        >>> settings = repalign.ExtractSettings("empty", "builtin:digits", Path("a.h5"))
        >>> repalign.extract(settings)
        Traceback (most recent call last):
        repalign.exceptions.ModelError: no config.json in empty/; give a directory saved by ...
    """


class ConvergenceError(RepalignError):
    """An iterative fit was required to converge and did not.

    Example:
        >>> raise ConvergenceError("ICA of a.h5 did not converge")
        Traceback (most recent call last):
        repalign.exceptions.ConvergenceError: ICA of a.h5 did not converge
    """


class MissingExtraError(RepalignError):
    """An optional dependency is needed and not installed.

    Example:
        >>> raise MissingExtraError("pyarrow", extra="parquet", purpose="reading a.parquet")
        Traceback (most recent call last):
        repalign.exceptions.MissingExtraError: reading a.parquet needs the package pyarrow, ...
    """

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}, which is not installed; "
            f"install it with: pip install {package} (extra {extra} of repalign)"
        )


class GateError(RepalignError):
    """A threshold that was asked to hold does not hold.

    Example:
        >>> GateError("1 of 2 gates do not hold").exit_code
        3
    """

    exit_code = 3
