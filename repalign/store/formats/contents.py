"""What a foreign file holds: the matrix that was chosen and what is known of its rows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import Rows
from repalign.delimited import ID_NAMES as ID_NAMES
from repalign.exceptions import InputError, SeveralViewsError

MAX_COLUMNS = 2**17  # as many as a view of a store has
MAX_ROWS = 2**40
METADATA_PREFIX = "Metadata_"  # of columns that describe a row, in profiles of cells


@dataclass(frozen=True)
class ForeignRequest:
    """What is asked of a foreign file.

    Args:
        path: the file, or a directory of the thingsvision layout.
        view: which array, column or layer; None where there is only one.
        id_column: array or column of the same file that holds the ids, or None.
        leave_out: columns of a table that are not values, such as labels, whatever they hold.
    """

    path: Path
    view: str | None = None
    id_column: str | None = None
    leave_out: Collection[str] = ()

    def leaves_out(self, name: str) -> bool:
        """Return whether a column of a table is no value, by its name or because it was listed."""
        is_id = name.lower() in ID_NAMES  # also where another column is taken for the ids
        return is_id or name.startswith(METADATA_PREFIX) or name in self.leave_out


@dataclass(frozen=True, eq=False)
class ForeignMatrix:
    """One matrix of a foreign file, with the identities that the file itself gives.

    Args:
        view: name of the matrix in the file.
        raw: its rows, in the type of the file.
        layout: what kind of file it is, for reports.
        ids: one text per row, or None.
        ids_from: where the ids were found, or empty.
        ids_of: fingerprint of the values that the file of the ids says they belong to, or None.
        token: token position of each row, or None.
        sample_sha: hash of each row's input, or None.
        bfloat16: the 16-bit words of ``raw`` are bfloat16 values.
        chunk_rows: rows that are always read together; 1 where any row can be read alone.
        columns: what the file calls the columns of the matrix, or None.
        left_out: other columns of a table, which are neither values nor identify a row.
        details: what else there is to say of the file, for reports.
    """

    view: str
    raw: Rows
    layout: str
    ids: Sequence[str] | None = None
    ids_from: str = ""
    ids_of: str | None = None
    token: NDArray[Any] | None = None
    sample_sha: NDArray[np.uint8] | None = None
    bfloat16: bool = False
    chunk_rows: int = 1
    columns: Sequence[str] | None = None
    left_out: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


def choose_view(request: ForeignRequest, available: Mapping[str, tuple[int, ...]]) -> str:
    """Return the name of the matrix that is meant, of those available with their shapes.

    Raises:
        InputError: the name is unknown.
        SeveralViewsError: none was given and the choice is not clear.
    """
    shown = _listing(available)
    if request.view is not None:
        if request.view in available:
            return request.view
        raise InputError(f"{request.path}: has no view {request.view!r}; it has {shown}")
    matrices = [name for name, shape in available.items() if len(shape) == 2]
    candidates = matrices or list(available)
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise InputError(f"{request.path}: holds no array of numbers; expected a matrix of rows")
    raise SeveralViewsError(
        f"{request.path}: holds {len(candidates)} arrays, {shown}; choose one: "
        f"{request.path}::{candidates[0]}",
        candidates,
        available,
    )


def check_matrix_shape(shape: Sequence[int], *, label: str) -> tuple[int, int]:
    """Check that a shape is that of a matrix of rows, of a size that can be meant.

    Raises:
        InputError: not two dimensions, empty, or absurdly large.
    """
    if len(shape) < 2:
        raise InputError(
            f"{label}: has shape {tuple(shape)}, one value per row; "
            "expected (rows, columns): reshape it to (rows, 1) if it has one column"
        )
    if len(shape) > 2:
        raise InputError(
            f"{label}: has shape {tuple(shape)}; expected (rows, columns): pool or choose one "
            "token or layer, or flatten the last dimensions, and save that"
        )
    n_rows, n_columns = int(shape[0]), int(shape[1])
    if n_rows < 1 or n_columns < 1:
        raise InputError(f"{label}: has shape {n_rows} × {n_columns}; it holds no value")
    if n_columns > MAX_COLUMNS or n_rows > MAX_ROWS:
        raise InputError(
            f"{label}: has shape {n_rows} × {n_columns}; at most {MAX_ROWS} rows of "
            f"{MAX_COLUMNS} columns are read"
        )
    return n_rows, n_columns


def check_id_count(ids: Sequence[Any], n_rows: int, *, ids_from: str, label: str) -> None:
    """Check that there is one id per row.

    Raises:
        InputError: there is not.
    """
    if len(ids) != n_rows:
        raise InputError(
            f"{ids_from}: holds {len(ids)} ids, {label} has {n_rows} rows; "
            "give one id per row, in the order of the rows"
        )


def texts_of(values: NDArray[Any] | Iterable[Any], *, label: str) -> list[str]:
    """Return identifiers that are text, bytes or integers as text.

    Raises:
        InputError: other types, or text that is not UTF-8.
    """
    if not isinstance(values, np.ndarray):
        return [_text_of(value, label=label) for value in values]
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "SUiuO":
        raise InputError(
            f"{label}: ids are {array.dtype} of shape {array.shape}; expected one text or integer "
            "per row"
        )
    return [_text_of(value, label=label) for value in array.tolist()]


def _text_of(value: Any, *, label: str) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{label}: the id {value!r} is not UTF-8; encode it so") from error
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(
            f"{label}: the id {value!r} is not text or an integer; expected one per row"
        )
    return str(value)


def _listing(available: Mapping[str, tuple[int, ...]], most: int = 12) -> str:
    shown = [
        f"{name} ({' × '.join(str(size) for size in shape)})" for name, shape in available.items()
    ]
    more = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {more} more" if more > 0 else "")
