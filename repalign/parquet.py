"""Parquet files, where a value that repeats takes next to nothing: what they declare and become."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from repalign.exceptions import MissingExtraError, reading
from repalign.files import check_regular

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

NUMBER_BYTES = 8


@contextmanager
def reading_arrow(name: object, problem: str = "not a readable parquet file") -> Iterator[None]:
    """Map what Arrow raises for a damaged file, as ``reading`` does."""
    import pyarrow as pa

    # OSError of damaged pages, UnicodeDecodeError of texts, which are not checked before
    with reading(name, pa.ArrowException, OSError, UnicodeDecodeError, problem=problem):
        yield


def open_parquet(path: Path, texts: Sequence[str] = ()) -> "pq.ParquetFile":
    """Open a parquet file.

    Args:
        path: the file.
        texts: columns whose texts are read as they are stored, as numbers into a list of the
            different ones; columns of other types may be among them.

    Raises:
        MissingExtraError: pyarrow is not installed.
        InputError: no regular file.
    """
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", extra="parquet", purpose=f"reading {path}") from error
    check_regular(path)
    file = pq.ParquetFile(path)
    schema = file.metadata.schema
    leaves = {schema.column(place).path for place in range(len(schema))}
    names = [name for name in texts if name in leaves]
    if not names:
        return file
    file.close()
    return pq.ParquetFile(path, read_dictionary=names)


def declared_bytes(file: "pq.ParquetFile", columns: Sequence[str]) -> int:
    """Return the bytes that columns declare to become: their numbers, and texts named once.

    The sizes are those of row groups, and of lists the length of the first: pyarrow ends the
    process where it is asked for those of a column and the metadata are damaged.
    """
    import pyarrow.types as kinds

    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    stored = sum(group.total_byte_size for group in groups)
    known = set(columns) & set(file.schema_arrow.names)
    lists = [name for name in sorted(known) if kinds.is_nested(file.schema_arrow.field(name).type)]
    width = len(known) - len(lists)
    for batch in file.iter_batches(batch_size=1, columns=lists) if lists else ():
        width += sum(len(value) for name in lists for value in batch[name].to_pylist() if value)
        break
    return max(NUMBER_BYTES * file.metadata.num_rows * width, stored)


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
