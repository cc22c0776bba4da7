"""Tables of factors, labels and batches: named columns with one value for every row.

Readable are CSV, TSV, Parquet and npz files. An id column tells which row is which input.
"""

import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError, MissingExtraError
from repalign.files import check_regular

ID_NAMES = ("id", "ids")
SUFFIXES = (".csv", ".tsv", ".npz", ".parquet")


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Columns of equal length by name, and the ids of the rows where there are any.

    Text columns hold strings, empty where a value is missing; missing numbers are NaN.
    """

    source: str
    columns: Mapping[str, NDArray[Any]]
    ids: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> NDArray[Any]:
        """Return one column.

        Raises:
            InputError: there is none of this name.
        """
        if name not in self.columns:
            raise InputError(
                f"{self.source}: has no column {name!r}; its columns are {', '.join(self.columns)}"
            )
        return self.columns[name]


def read_columns(
    path: str | Path, *, id_column: str | None = None, only: Sequence[str] | None = None
) -> ColumnTable:
    """Read a table of columns.

    Args:
        path: a CSV, TSV, Parquet or npz file. Of an npz file, arrays of one dimension are
            columns and arrays of two dimensions several (``name.0``, ``name.1``, …, or as the
            array ``<name>_names`` calls them).
        id_column: the column of ids; by default one that is called ``id`` or ``ids``.
        only: the columns wanted; by default all.

    Raises:
        InputError: no such file or column, an unknown layout, or columns of unequal length.
        MissingExtraError: Parquet without pyarrow.
    """
    source = Path(path)
    check_regular(source)
    suffix = source.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{source}: cannot be read; expected one of {', '.join(SUFFIXES)}")
    read = _read_npz if suffix == ".npz" else _read_frame
    columns, notes = read(source)
    return _checked_table(str(source), columns, id_column=id_column, only=only, notes=notes)


def table_of(
    columns: Mapping[str, Any], *, ids: Sequence[str] | None = None, name: str = "columns"
) -> ColumnTable:
    """Return columns in memory as a table.

    Raises:
        InputError: columns that are empty, of several dimensions or of unequal length.
    """
    arrays = {title: _plain(np.asarray(values)) for title, values in columns.items()}
    table = _checked_table(name, arrays, id_column="" if ids is not None else None, only=None)
    if ids is None:
        return table
    if len(ids) != table.n_rows:
        raise InputError(f"{name}: {len(ids)} ids for {table.n_rows} rows; give one id per row")
    return ColumnTable(name, table.columns, tuple(map(str, ids)))


def has_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell for every value of a column whether it is missing."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "U":
        return values == ""
    return np.zeros(len(values), dtype=np.bool_)


def _checked_table(
    source: str,
    columns: dict[str, NDArray[Any]],
    *,
    id_column: str | None,
    only: Sequence[str] | None,
    notes: tuple[str, ...] = (),
) -> ColumnTable:
    for name, values in columns.items():
        if values.ndim != 1:
            raise InputError(f"{source}: {name} has shape {values.shape}; expected one dimension")
    lengths = {name: len(values) for name, values in columns.items()}
    if len({*lengths.values()}) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"{source}: columns of unequal length ({shown}); expected one value a row")
    table = ColumnTable(source, columns, None, notes)
    if id_column is None:
        id_column = next((name for name in ID_NAMES if name in columns), "")
    ids = tuple(map(str, table.column(id_column).tolist())) if id_column else None
    wanted = [name for name in columns if name != id_column] if only is None else list(only)
    kept = {name: table.column(name) for name in wanted}
    if not kept or table.n_rows == 0:
        raise InputError(f"{source}: holds no column of values; expected at least one")
    if ids is not None:
        most_common, count = Counter(ids).most_common(1)[0]
        if count > 1:
            raise InputError(
                f"{source}: the id {most_common!r} stands in {count} rows; expected it once"
            )
    return ColumnTable(source, kept, ids, notes)


def _read_frame(source: Path) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    import pandas

    try:
        if source.suffix.lower() == ".parquet":
            frame = pandas.read_parquet(source)
        else:
            separator = "\t" if source.suffix.lower() == ".tsv" else ","
            text = dict.fromkeys(ID_NAMES, str)
            frame = pandas.read_csv(source, sep=separator, dtype=text)
    except ImportError as error:
        raise MissingExtraError("pyarrow", extra="parquet", purpose=f"reading {source}") from error
    except (ValueError, OSError) as error:
        first_line = str(error).splitlines()[0]
        raise InputError(f"{source}: is no readable table ({first_line})") from error
    return {str(name): _plain(frame[name].to_numpy()) for name in frame.columns}, ()


def _read_npz(source: Path) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    try:
        with np.load(source, allow_pickle=False) as file:
            return _npz_columns(file, source)
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{source}: is no readable npz file ({error})") from error


def _npz_columns(file: Any, source: Path) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    columns: dict[str, NDArray[Any]] = {}
    notes = []
    for name in file.files:
        if name.endswith("_names") and name.removesuffix("_names") in file.files:
            continue
        shape, dtype = _npz_header(source, name)
        if dtype.hasobject or len(shape) not in (1, 2):
            notes.append(f"{source}: the array {name} of shape {shape} is no column, passed over")
            continue
        values = file[name]
        if values.ndim == 1:
            columns[name] = _plain(values)
            continue
        titles = [f"{name}.{j}" for j in range(values.shape[1])]
        if f"{name}_names" in file.files:
            titles = [str(title) for title in file[f"{name}_names"]]
        if len(titles) != values.shape[1]:
            raise InputError(
                f"{source}: {len(titles)} names for {values.shape[1]} columns of {name}"
            )
        columns.update(zip(titles, values.T, strict=True))
    return columns, tuple(notes)


def _npz_header(source: Path, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read shape and type of an array without its values, which may be images."""
    with zipfile.ZipFile(source) as archive, archive.open(f"{name}.npy") as stream:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(stream)
        return shape, dtype


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as they are and everything else as text, empty where missing."""
    if values.dtype.kind in "iufbU":
        return values
    return np.array(["" if _is_nothing(value) else str(value) for value in values.tolist()])


def _is_nothing(value: Any) -> bool:
    return value is None or value != value
