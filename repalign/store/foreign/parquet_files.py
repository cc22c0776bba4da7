"""Embeddings in ``.parquet`` files: a column per dimension, or one column of lists."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError, MissingExtraError
from repalign.expansion import check_copy, check_identities
from repalign.parquet import declared_bytes, open_parquet, reading_arrow, text_lengths
from repalign.store.foreign.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
)
from repalign.store.foreign.row_identities import RowIdentities
from repalign.store.rows.floats import float_type
from repalign.store.rows.spool import spool_blocks

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS_VIEW = "columns"  # name of the matrix that the columns of numbers form together
BATCH_ROWS, BATCH_BYTES = 8192, 2**27
_DAMAGED = "holds values that cannot be read"


def read_parquet(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a ``.parquet`` file; it is read once, into a temporary file.

    A column of lists of numbers is a view of its name; the columns of single numbers form the
    view ``columns``. Ids are the column ``id_column``, one named ``id``, ``ids`` or
    ``sample_id``, or the only column of text. Other columns are left out.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "pyarrow", extra="parquet", purpose=f"reading {request.path}"
        ) from error
    return read_table(request, ParquetTable(request.path))


@dataclass(frozen=True)
class Sized:
    """How many rows a table has."""

    num_rows: int


class Table(Protocol):
    """What is asked of a file of columns; ``layout`` is its format, where it is not parquet."""

    @property
    def schema_arrow(self) -> "pa.Schema":
        """Names and types of the columns."""
        ...

    @property
    def metadata(self) -> Sized:
        """How many rows there are."""
        ...

    def iter_batches(self, batch_size: int, columns: list[str]) -> Iterator["pa.RecordBatch"]:
        """Yield rows of some columns in order."""
        ...


class ParquetTable:
    """A parquet file, whose columns are compared with the limit before they are read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with reading_arrow(path), open_parquet(path) as file:
            self.schema_arrow = file.schema_arrow
            _ = self.schema_arrow.names  # decoded now
            self.metadata = Sized(file.metadata.num_rows)

    def iter_batches(self, batch_size: int, columns: list[str]) -> Iterator["pa.RecordBatch"]:
        """Yield rows of some columns in order, fewer at a time where they are wide."""
        with reading_arrow(self._path):
            file = open_parquet(self._path, columns)
        with file:
            with reading_arrow(self._path):
                n_bytes = declared_bytes(file, columns)
            check_copy(self._path, n_bytes, label=str(self._path))
            fitting = BATCH_BYTES * self.metadata.num_rows // max(n_bytes, 1)
            batches = file.iter_batches(max(1, min(batch_size, fitting)), columns=columns)
            while True:
                with reading_arrow(self._path):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch


def read_table(request: ForeignRequest, table: Table) -> ForeignMatrix:
    """Read one matrix of a table of columns."""
    schema = table.schema_arrow
    id_name = _id_column(request, schema)
    views = _views(request, schema, id_name, n_rows=table.metadata.num_rows)
    view = choose_view(request, {name: shape for name, (shape, _) in views.items()})
    columns = views[view][1]
    label = f"{request.path}::{view}"
    extra = [name for name in schema.names if name == id_name or name in RowIdentities.NAMES]
    kept = RowIdentities(id_name=id_name, label=str(request.path))
    blocks = _value_blocks(table, columns, extra, kept=kept, label=label)
    first = next(blocks, None)
    if first is None:
        raise InputError(f"{label}: holds no row")
    shape = check_matrix_shape((table.metadata.num_rows, first.shape[1]), label=label)
    dtype = float_type(first.dtype, label=label)
    check_copy(request.path, shape[0] * shape[1] * dtype.itemsize, label=label)
    raw = spool_blocks(
        _joined(first, blocks, label=label),
        n_rows=shape[0],
        n_columns=shape[1],
        dtype=dtype,
        label=label,
    )
    return ForeignMatrix(
        view=view,
        raw=raw,
        layout=getattr(table, "layout", "parquet"),
        ids=kept.ids(),
        ids_from="" if id_name is None else f"{request.path}::{id_name}",
        token=kept.token(),
        sample_sha=kept.sample_sha(),
        columns=columns if view == COLUMNS_VIEW else None,
        left_out=[name for name in schema.names if name not in (*columns, *extra)]
        if view == COLUMNS_VIEW
        else (),
    )


def _joined(
    first: NDArray[Any], rest: Iterator[NDArray[Any]], *, label: str
) -> Iterator[NDArray[Any]]:
    """Yield all blocks and check that they have one width."""
    yield first
    for block in rest:
        if block.shape[1] != first.shape[1]:
            raise InputError(
                f"{label}: has lists of {first.shape[1]} and of {block.shape[1]} values; "
                "expected one length"
            )
        yield block


def _id_column(request: ForeignRequest, schema: "pa.Schema") -> str | None:
    import pyarrow.types as kinds

    if request.id_column is not None:
        if request.id_column not in schema.names:
            raise InputError(
                f"{request.path}: has no column {request.id_column!r}; "
                f"it has {', '.join(schema.names[:12])}"
            )
        return request.id_column
    named = next((name for name in schema.names if name.lower() in ID_NAMES), None)
    texts = [
        field.name
        for field in schema
        if (kinds.is_string(field.type) or kinds.is_large_string(field.type))
        and field.name not in RowIdentities.NAMES
        and not request.leaves_out(field.name)
    ]
    # the index that pandas writes when it has no name
    index = "__index_level_0__" if "__index_level_0__" in schema.names else None
    return named or index or (texts[0] if len(texts) == 1 else None)


def _views(
    request: ForeignRequest, schema: "pa.Schema", id_name: str | None, *, n_rows: int
) -> dict[str, tuple[tuple[int, ...], list[str]]]:
    """Return shape and columns of every matrix of the table; a width of 0 is not known yet."""
    import pyarrow.types as kinds

    views: dict[str, tuple[tuple[int, ...], list[str]]] = {}
    single = []
    for field in schema:
        if field.name == id_name or field.name in RowIdentities.NAMES:
            continue
        if kinds.is_fixed_size_list(field.type):
            views[field.name] = ((n_rows, field.type.list_size), [field.name])
        elif kinds.is_list(field.type) or kinds.is_large_list(field.type):
            views[field.name] = ((n_rows, 0), [field.name])
        elif request.leaves_out(field.name):
            continue
        elif kinds.is_floating(field.type) or kinds.is_integer(field.type):
            single.append(field.name)
    if (single and not views) or len(single) > 1:
        views[COLUMNS_VIEW] = ((n_rows, len(single)), single)
    return views


def _value_blocks(
    table: Table,
    columns: list[str],
    extra: list[str],
    *,
    kept: RowIdentities,
    label: str,
) -> Iterator[NDArray[Any]]:
    row = 0
    for batch in table.iter_batches(batch_size=BATCH_ROWS, columns=[*columns, *extra]):
        for name in extra:
            with reading_arrow(label, _DAMAGED):
                n_bytes = text_lengths(batch.column(name))[0]
            check_identities(n_bytes, label=label)
        with reading_arrow(label, _DAMAGED):
            identities = {name: batch.column(name).to_pylist() for name in extra}
            arrays = [batch.column(name) for name in columns]
        kept.add(identities)
        for name, array in zip(columns, arrays, strict=True):
            if array.null_count:
                missing = row + int(np.flatnonzero(array.is_null().to_numpy(False))[0])
                raise InputError(f"{label}: row {missing} has no value in {name!r}; remove it")
        yield _block(arrays, label=label, first_row=row)
        row += len(batch)


def _block(arrays: list["pa.Array"], *, label: str, first_row: int) -> NDArray[Any]:
    """Return a block of columns, or of one column of lists, as a matrix."""
    import pyarrow.types as kinds

    array = arrays[0]
    is_lists = kinds.is_fixed_size_list(array.type) or hasattr(array.type, "value_type")
    if not is_lists:
        with reading_arrow(label, _DAMAGED):
            blocks = [column.to_numpy(zero_copy_only=False) for column in arrays]
        return np.stack(blocks, axis=1)
    with reading_arrow(label, _DAMAGED):
        values = array.flatten()
    if values.null_count:
        raise InputError(f"{label}: a list from row {first_row} on has an empty value; remove it")
    with reading_arrow(label, _DAMAGED):
        numbers = values.to_numpy(zero_copy_only=False)
        lengths = np.asarray(array.value_lengths())
    if len(lengths) and (lengths != lengths[0]).any():
        row = int(np.flatnonzero(lengths != lengths[0])[0])
        raise InputError(
            f"{label}: row {first_row + row} has {lengths[row]} values, row {first_row} has "
            f"{lengths[0]}; expected one length"
        )
    return numbers.reshape(len(array), lengths[0] if len(lengths) else 0)
