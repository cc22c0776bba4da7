"""Tables that Hugging Face's ``Dataset.save_to_disk`` writes: Arrow files and ``state.json``."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repalign.exceptions import InputError, MissingExtraError
from repalign.files import check_regular, open_regular
from repalign.parquet import reading_arrow
from repalign.store.foreign.contents import ForeignMatrix, ForeignRequest
from repalign.store.foreign.directories.arrow_messages import NOT_ARROW, check_messages
from repalign.store.foreign.parquet_files import Sized, read_table

if TYPE_CHECKING:
    import pyarrow as pa

STATE, SPLITS = "state.json", "dataset_dict.json"
_MOST_BYTES = 2**26


class ArrowTable:
    """Arrow files one after the other, read as a parquet file is."""

    def __init__(self, paths: list[Path], layout: str) -> None:
        self._paths, self.layout = paths, layout
        first, *others = [_schema(path) for path in paths]
        if any(schema != first for schema in others):
            raise InputError(f"{paths[0].parent}: its Arrow files have different columns")
        self.schema_arrow = first
        self.metadata = Sized(sum(len(batch) for path in paths for batch in _batches(path)))

    def iter_batches(self, batch_size: int, columns: list[str]) -> Iterator["pa.RecordBatch"]:
        """Yield rows of some columns in order."""
        for path in self._paths:
            for batch in _batches(path):
                for start in range(0, len(batch), batch_size):
                    yield batch.slice(start, batch_size).select(columns)


def read_saved_dataset(request: ForeignRequest) -> ForeignMatrix:
    """Open one matrix of a directory written by ``save_to_disk``; views and ids as in parquet."""
    root = request.path
    if (root / SPLITS).is_file():
        splits = _list(_object(root / SPLITS).get("splits")) or ["train"]
        raise InputError(
            f"{root}: holds {len(splits)} splits, {', '.join(map(str, splits))}; give one: "
            f"{root / str(splits[0])}"
        )
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("pyarrow", extra="parquet", purpose=f"reading {root}") from error
    state = _object(root / STATE)
    if state.get("_indices_data_files"):
        raise InputError(
            f"{root}: its rows were chosen or shuffled and lie in the old order; save it again "
            "after dataset.flatten_indices()"
        )
    entries = _list(state.get("_data_files"))
    names = [str(entry.get("filename")) if isinstance(entry, dict) else "" for entry in entries]
    if not names or any(Path(name).name != name or "\0" in name for name in names):
        raise InputError(f"{root}: {STATE} names no Arrow files of this directory")
    for name in names:
        check_regular(root / name)
    for name in names:
        check_messages(root / name)
    return read_table(request, ArrowTable([root / name for name in names], "Arrow"))


def _object(path: Path) -> dict[str, Any]:
    with open_regular(path) as file:
        text = file.read(_MOST_BYTES)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable JSON; is it damaged?") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds no object; is it damaged?")
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _schema(path: Path) -> "pa.Schema":
    import pyarrow as pa

    with (
        reading_arrow(path, NOT_ARROW),
        pa.memory_map(str(path)) as source,
        pa.ipc.open_stream(source) as stream,
    ):
        _ = stream.schema.names  # decoded now
        return stream.schema


def _batches(path: Path) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    with reading_arrow(path, NOT_ARROW):
        source = pa.memory_map(str(path))
    with source:
        with reading_arrow(path, NOT_ARROW):
            stream = pa.ipc.open_stream(source)
        with stream:
            while True:
                with reading_arrow(path, NOT_ARROW):
                    batch = next(stream, None)
                    if batch is not None:
                        batch.validate(full=True)  # or Arrow would read beyond the file
                if batch is None:
                    return
                yield batch
