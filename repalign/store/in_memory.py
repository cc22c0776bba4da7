"""Arrays, tensors and data frames as matrices with the identities of their rows."""

from collections import Counter
from collections.abc import Collection, Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repalign.aliases import Rows
from repalign.arguments import is_a
from repalign.exceptions import InputError
from repalign.printable import listing
from repalign.rows import ArrayRows
from repalign.store.formats.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    texts_of,
)
from repalign.store.formats.identifiers import RowIdentities
from repalign.store.formats.tensors import tensor_values
from repalign.store.reader import StoreView
from repalign.store.rows import unmasked

if TYPE_CHECKING:
    import pandas as pd


def object_matrix(values: Any, name: str, leave_out: Collection[str]) -> ForeignMatrix:
    """Return an object in memory as a matrix; only a frame has ids.

    Raises:
        InputError: it is not a matrix of numbers.
    """
    layout = f"{type(values).__name__} in memory"
    if is_a(values, "pandas", "DataFrame"):
        return _frame_matrix(values, name, leave_out)
    if isinstance(values, StoreView):
        raise InputError(
            f"{name}: is a view without the identity of its rows; give the path, store.h5::view"
        )
    if isinstance(values, Mapping):
        raise InputError(
            f"{name}: got a dictionary, expected a matrix; give one of its values, or a data frame"
        )
    if isinstance(values, Rows):
        return ForeignMatrix(view=name, raw=values, layout=layout)
    is_bfloat16 = False
    if is_a(values, "torch", "Tensor"):
        array, is_bfloat16 = tensor_values(values, label=name)
    else:
        try:
            array = unmasked(values, label=name)
        except ValueError as error:
            raise InputError(
                f"{name}: is not a matrix of numbers ({error}); give rows of one length"
            ) from error
    check_matrix_shape(array.shape, label=name)
    return ForeignMatrix(view=name, raw=ArrayRows(array), layout=layout, bfloat16=is_bfloat16)


def _frame_matrix(frame: "pd.DataFrame", name: str, leave_out: Collection[str]) -> ForeignMatrix:
    """Return the columns of numbers of a frame, with the identities of its rows."""
    request = ForeignRequest(Path(name), leave_out=leave_out)
    names = [str(column) for column in frame.columns]
    duplicate = next((column for column, count in Counter(names).items() if count > 1), None)
    if duplicate is not None:
        raise InputError(f"{name}: has two columns {duplicate!r}; rename one")
    columns = {column: frame.iloc[:, place] for place, column in enumerate(names)}
    id_name = next((column for column in names if column.lower() in ID_NAMES), None)
    identities = RowIdentities(id_name=id_name, label=name)
    identities.add({key: columns[key].tolist() for key in identities.names if key in columns})
    values = [
        column
        for column in names
        if column not in identities.names
        and not request.leaves_out(column)
        and _holds_numbers(columns[column], f"{name}: the column {column!r}")
    ]
    if not values:
        raise InputError(f"{name}: has no column of numbers; it has {listing(names)}")
    ids = identities.ids() if id_name is not None else frame_ids(frame, name=name)
    numbers = frame.iloc[:, [names.index(column) for column in values]]
    array = numbers.infer_objects().to_numpy()
    check_matrix_shape(array.shape, label=name)
    return ForeignMatrix(
        view=name,
        raw=ArrayRows(array),
        layout="DataFrame in memory",
        ids=ids,
        ids_from="" if ids is None else f"{name} ({id_name or 'index'})",
        token=identities.token(),
        sample_sha=identities.sample_sha(),
        columns=values,
        left_out=[column for column in names if column not in (*values, *identities.names)],
    )


def _holds_numbers(column: "pd.Series[Any]", label: str) -> bool:
    """Return whether a column of a frame holds numbers.

    Raises:
        InputError: most of its values are numbers, and some are not.
    """
    if column.dtype.kind != "O":
        return column.dtype.kind in "fiu"
    is_number = [isinstance(v, Real) and not isinstance(v, bool) for v in column.tolist()]
    if 2 * sum(is_number) > len(is_number) and not all(is_number):
        row = is_number.index(False)
        raise InputError(
            f"{label} holds {column.iloc[row]!r} in row {row}; expected a number in every row"
        )
    return 2 * sum(is_number) > len(is_number)


def frame_ids(frame: "pd.DataFrame", *, name: str) -> list[str] | None:
    """Return the index of a frame as ids, None for a plain range.

    Raises:
        InputError: it has several levels.
    """
    import pandas as pd

    if isinstance(frame.index, pd.RangeIndex):
        return None
    if isinstance(frame.index, pd.MultiIndex):
        raise InputError(f"{name}: has an index of several levels; give one id per row")
    return texts_of(frame.index.to_numpy(), label=f"{name} (index)")
