"""Tables of Arrow: ``.parquet`` files and what Hugging Face's ``Dataset.save_to_disk`` writes.

A column per dimension, or one column of lists.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError
from repalign.expansion import check_expansion, check_identities
from repalign.files import check_regular, open_regular
from repalign.parquet import (
    BATCH_ROWS,
    ParquetTable,
    read_batches,
    reading_arrow,
    text_lengths,
)
from repalign.store.formats.contents import (
    ID_NAMES,
    ForeignMatrix,
    ForeignRequest,
    check_matrix_shape,
    choose_view,
)
from repalign.store.formats.identifiers import RowIdentities
from repalign.store.rows import float_type, spool_blocks

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS_VIEW = "columns"  # name of the matrix that the columns of numbers form together
STATE, SPLITS = "state.json", "dataset_dict.json"
STATE_BYTES = 2**26
_DAMAGED = "holds values that cannot be read"
_NOT_ARROW = "not a readable Arrow file"


class ArrowStreams:
    """Files of Arrow as one table that is read in batches.

    Args:
        paths: the files, in order.

    Raises:
        MissingExtraError: pyarrow is not installed.
        InputError: no regular files, not files of Arrow, or of different columns.
    """

    layout = "Arrow"

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        for path in paths:
            check_regular(path)
        schemas = [_read_schema(path) for path in paths]
        if any(schema != schemas[0] for schema in schemas):
            raise InputError(f"{paths[0].parent}: its Arrow files have different columns")
        self.schema = schemas[0]
        self.n_rows = sum(len(batch) for path in paths for batch in _arrow_batches(path))
        self.n_stored = sum(path.stat().st_size for path in paths)

    def batches(self, columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        """Yield columns in batches of rows."""
        for path in self._paths:
            for batch in _arrow_batches(path):
                for start in range(0, len(batch), BATCH_ROWS):
                    yield batch.slice(start, BATCH_ROWS).select(columns)


def read_parquet(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a ``.parquet`` file; it is read once, into a temporary file.

    A column of lists of numbers is a view of its name; the columns of single numbers form the
    view ``columns``. Ids are the column ``id_column``, one named ``id``, ``ids`` or
    ``sample_id``, or the only column of text. Other columns are left out.
    """
    with ParquetTable(request.path) as table:
        return _read_table(request, table)


def read_saved_dataset(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a directory written by ``save_to_disk``; views and ids as in parquet."""
    root = request.path
    if (root / SPLITS).is_file():
        splits = _read_list(root / SPLITS, "splits") or ["train"]
        raise InputError(
            f"{root}: holds {len(splits)} splits, {', '.join(map(str, splits))}; give one: "
            f"{root / str(splits[0])}"
        )
    if _read_list(root / STATE, "_indices_data_files"):
        raise InputError(
            f"{root}: its rows were chosen or shuffled and lie in the old order; save it again "
            "after dataset.flatten_indices()"
        )
    entries = _read_list(root / STATE, "_data_files")
    names = [str(entry.get("filename")) if isinstance(entry, dict) else "" for entry in entries]
    if not names or any(Path(name).name != name or "\0" in name for name in names):
        raise InputError(f"{root}: {STATE} names no Arrow files of this directory")
    return _read_table(request, ArrowStreams([root / name for name in names]))


def _read_list(path: Path, key: str) -> list[Any]:
    """Return a list of a JSON object; empty where it is not there."""
    with open_regular(path) as file:
        text = file.read(STATE_BYTES)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable JSON; is it damaged?") from error
    value = content.get(key) if isinstance(content, dict) else None
    return value if isinstance(value, list) else []


def _read_schema(path: Path) -> "pa.Schema":
    with reading_arrow(path, _NOT_ARROW):
        import pyarrow as pa

        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
            _ = stream.schema.names  # decoded now
            return stream.schema


def _arrow_batches(path: Path) -> Iterator["pa.RecordBatch"]:
    with reading_arrow(path, _NOT_ARROW):
        import pyarrow as pa

        source = pa.memory_map(str(path))
    with source:
        with reading_arrow(path, _NOT_ARROW):
            stream = pa.ipc.open_stream(source)
        yield from read_batches(stream, path, _NOT_ARROW)


def _read_table(request: ForeignRequest, table: ParquetTable | ArrowStreams) -> ForeignMatrix:
    """Read one matrix of a table of columns."""
    names = table.schema.names
    id_name = _id_column(request, table.schema)
    views = _views(request, table, id_name)
    view = choose_view(request, {name: shape for name, (shape, _) in views.items()})
    columns = views[view][1]
    label = f"{request.path}::{view}"
    extra = [name for name in names if name == id_name or name in RowIdentities.NAMES]
    identities = RowIdentities(id_name=id_name, label=str(request.path))
    blocks = _value_blocks(table, columns, extra, identities=identities, label=label)
    first = next(blocks, None)
    if first is None:
        raise InputError(f"{label}: holds no row")
    shape = check_matrix_shape((table.n_rows, first.shape[1]), label=label)
    dtype = float_type(first.dtype, label=label)
    check_expansion(table.n_stored, shape[0] * shape[1] * dtype.itemsize, label=label)
    raw = spool_blocks(
        chain([first], blocks), n_rows=shape[0], n_columns=shape[1], dtype=dtype, label=label
    )
    is_columns = view == COLUMNS_VIEW
    return ForeignMatrix(
        view=view,
        raw=raw,
        layout=table.layout,
        ids=identities.ids(),
        ids_from="" if id_name is None else f"{request.path}::{id_name}",
        token=identities.token(),
        sample_sha=identities.sample_sha(),
        columns=columns if is_columns else None,
        left_out=[name for name in names if name not in (*columns, *extra)] if is_columns else (),
    )


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
    request: ForeignRequest, table: ParquetTable | ArrowStreams, id_name: str | None
) -> dict[str, tuple[tuple[int, ...], list[str]]]:
    """Return shape and columns of every matrix of the table; a width of 0 is not known yet."""
    import pyarrow.types as kinds

    views: dict[str, tuple[tuple[int, ...], list[str]]] = {}
    single = []
    n_rows = table.n_rows
    for field in table.schema:
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
    table: ParquetTable | ArrowStreams,
    columns: list[str],
    extra: list[str],
    *,
    identities: RowIdentities,
    label: str,
) -> Iterator[NDArray[Any]]:
    """Yield the values in blocks of one width, and collect what identifies the rows."""
    row, width = 0, None
    for batch in table.batches([*columns, *extra]):
        for name in extra:
            with reading_arrow(label, _DAMAGED):
                n_bytes = text_lengths(batch.column(name))[0]
            check_identities(n_bytes, label=label)
        with reading_arrow(label, _DAMAGED):
            texts = {name: batch.column(name).to_pylist() for name in extra}
            arrays = [batch.column(name) for name in columns]
        identities.add(texts)
        for name, array in zip(columns, arrays, strict=True):
            if array.null_count:
                missing = row + int(np.flatnonzero(array.is_null().to_numpy(False))[0])
                raise InputError(f"{label}: row {missing} has no value in {name!r}; remove it")
        block = _block(arrays, label=label, first_row=row)
        if width not in (None, block.shape[1]):
            raise InputError(
                f"{label}: has lists of {width} and of {block.shape[1]} values; expected one length"
            )
        width = block.shape[1]
        yield block
        row += len(batch)


def _block(arrays: list["pa.Array"], *, label: str, first_row: int) -> NDArray[Any]:
    """Return a block of columns, or of one column of lists, as a matrix."""
    array = arrays[0]
    if not hasattr(array, "value_lengths"):  # single numbers
        with reading_arrow(label, _DAMAGED):
            blocks = [column.to_numpy(zero_copy_only=False) for column in arrays]
        return np.stack(blocks, axis=1)
    with reading_arrow(label, _DAMAGED):
        values, lengths = array.flatten(), np.asarray(array.value_lengths())
    if values.null_count:
        raise InputError(f"{label}: a list from row {first_row} on has an empty value; remove it")
    with reading_arrow(label, _DAMAGED):
        numbers = values.to_numpy(zero_copy_only=False)
    if len(lengths) and (lengths != lengths[0]).any():
        row = int(np.flatnonzero(lengths != lengths[0])[0])
        raise InputError(
            f"{label}: row {first_row + row} has {lengths[row]} values, row {first_row} has "
            f"{lengths[0]}; expected one length"
        )
    return numbers.reshape(len(array), lengths[0] if len(lengths) else 0)
