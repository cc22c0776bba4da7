"""Parquet files, where a value that repeats takes next to nothing: what they declare and become."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from repalign.exceptions import InputError, MissingExtraError, reading
from repalign.expansion import check_expansion
from repalign.files import check_regular

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER_BYTES = 8
BATCH_ROWS, BATCH_BYTES = 8192, 2**27


@contextmanager
def reading_arrow(name: object, problem: str = "not a readable parquet file") -> Iterator[None]:
    """Map what Arrow raises for a damaged file, as ``reading`` does.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("pyarrow", extra="parquet", purpose=f"reading {name}") from error
    # OSError of damaged pages, UnicodeDecodeError of texts, which are not checked before
    with reading(name, pa.ArrowException, OSError, UnicodeDecodeError, problem=problem):
        yield


def read_batches(
    batches: "Iterator[pa.RecordBatch]", name: object, problem: str = "not a readable parquet file"
) -> "Iterator[pa.RecordBatch]":
    """Yield what a reader of Arrow yields, after checking that no offset leads out of it."""
    while True:
        with reading_arrow(name, problem):
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)
        if batch is None:
            return
        yield batch


class ParquetTable:
    """A parquet file; use it as a context, or leave it open.

    Batches and groups hold texts as they are stored, as numbers into a list of the different ones.

    Args:
        path: the file.
        name: what messages call it, by default its path.

    Raises:
        MissingExtraError: pyarrow is not installed.
        InputError: no regular file, or not a parquet file.
    """

    layout = "parquet"

    def __init__(self, path: Path, name: object = None) -> None:
        self._name = name or path
        check_regular(path)
        self.n_stored = path.stat().st_size
        with reading_arrow(self._name):
            import pyarrow.parquet as pq

            self._plain = pq.ParquetFile(path)
            self.schema: pa.Schema = self._plain.schema_arrow
            metadata = self._plain.metadata
            leaves = {metadata.schema.column(k).path for k in range(len(metadata.schema))}
            texts = [name for name in self.schema.names if name in leaves]
            self._file = pq.ParquetFile(path, read_dictionary=texts)
            groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
            self.group_rows = [group.num_rows for group in groups]
            self._stored = sum(group.total_byte_size for group in groups)
            self.n_rows: int = metadata.num_rows
            self.n_leaves: int = metadata.num_columns

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._plain.close()
        self._file.close()

    def declared_bytes(self, columns: Sequence[str]) -> int:
        """Return the bytes that columns declare to become: their numbers, and texts named once.

        The sizes are those of row groups, and of lists the length of the first: pyarrow ends the
        process where it is asked for those of a column and the metadata are damaged.

        Raises:
            InputError: two columns have one of these names, or the file is damaged.
        """
        names = self.schema.names
        repeated = next((name for name in columns if names.count(name) > 1), None)
        if repeated is not None:
            raise InputError(f"{self._name}: has two columns {repeated!r}; rename one")
        with reading_arrow(self._name):
            import pyarrow.types as kinds

            known = sorted(set(columns) & set(names))
            lists = [name for name in known if kinds.is_nested(self.schema.field(name).type)]
            width = len(known) - len(lists)
            first = self._file.iter_batches(batch_size=1, columns=lists) if lists else ()
            for batch in first:
                values = [value for name in lists for value in batch[name].to_pylist()]
                width += sum(len(value) for value in values if value)
                break
        return max(NUMBER_BYTES * self.n_rows * width, self._stored)

    def check_size(self, columns: Sequence[str]) -> int:
        """Check that columns become no more than the file may, and return what they declare.

        Raises:
            InputError: they become more, or as for ``declared_bytes``.
        """
        n_bytes = self.declared_bytes(columns)
        check_expansion(self.n_stored, n_bytes, label=str(self._name))
        return n_bytes

    def batches(self, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """Yield columns in batches of rows that fit into little memory.

        Raises:
            InputError: as for ``check_size``.
        """
        fitting = BATCH_BYTES * self.n_rows // max(self.check_size(columns), 1)
        n_rows = max(1, min(BATCH_ROWS, fitting))
        return read_batches(self._file.iter_batches(n_rows, columns=columns), self._name)

    def group(self, number: int, columns: Sequence[str] | None = None) -> "pa.Table":
        """Return columns of a group of rows."""
        with reading_arrow(self._name):
            return self._file.read_row_group(number, columns=columns)

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """Return columns as arrays of numpy."""
        with reading_arrow(self._name):
            table = self._plain.read(columns=names)
            # column by column: what pandas says in the metadata of the table may be damaged
            return {name: table[name].to_pandas().to_numpy() for name in table.column_names}


def text_lengths(column: "pa.Array | pa.ChunkedArray") -> tuple[int, int]:
    """Return the bytes of all texts of a column, repeated ones counted again, and of the longest.

    Of a column of anything else both are 0.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    total = longest = 0
    for part in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        values = part.dictionary if isinstance(part, pa.DictionaryArray) else part
        is_text = any(
            check(values.type)
            for check in (kinds.is_string, kinds.is_large_string, kinds.is_binary)
        )
        if not is_text:
            continue
        lengths = pc.binary_length(values)
        if isinstance(part, pa.DictionaryArray):
            lengths = lengths.take(part.indices)
        total += pc.sum(lengths.cast(pa.int64())).as_py() or 0
        longest = max(longest, pc.max(lengths).as_py() or 0)
    return total, longest
