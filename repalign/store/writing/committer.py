"""Shards written one after the other, made durable in the background, named in order."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from repalign.aliases import FloatArray
from repalign.exceptions import StoreError
from repalign.store.format.layout import Description, IndexLayout
from repalign.store.format.sealed_json import temporary_path
from repalign.store.format.shard import commit_shard, shard_name
from repalign.store.joining.index import RowIndex
from repalign.store.reading.safety import check_sizes
from repalign.store.writing.background import BackgroundThread
from repalign.store.writing.file import FileWriter


class ShardCommitter:
    """Writes shards of a directory.

    A shard is synced and named in the background while the next one is written, at most two
    behind, and only after the one before it: what a killed writer leaves is a prefix.

    Args:
        directory: the directory store.
        description: how the rows are made.
    """

    def __init__(self, directory: Path, description: Description) -> None:
        self._directory = directory
        self._description = description
        self._behind = BackgroundThread("repalign-commit")

    def write(self, number: int, arrays: Mapping[str, FloatArray], index: RowIndex) -> None:
        """Write a shard and leave its commit to the background.

        Raises:
            StoreError: this or an earlier shard cannot be written.
        """
        id_bytes = 0 if index.ids is None else max(1, index.ids.dtype.itemsize)
        layout = IndexLayout(tuple(index.columns), id_bytes)
        temporary = temporary_path(self._directory / shard_name(number))
        with _removed_on_failure(temporary, self._directory / shard_name(number)):
            self._write_file(temporary, number, arrays, index, layout)
        self._behind.put(
            partial(self._commit, temporary, number),
            # a shard that failed is not followed by another
            otherwise=partial(temporary.unlink, missing_ok=True),
        )

    def wait(self) -> None:
        """Wait until everything written is committed.

        Raises:
            StoreError: a shard cannot be committed.
        """
        self._behind.wait()

    def close(self) -> None:
        """Commit what is written and stop.

        Raises:
            StoreError: a shard cannot be committed.
        """
        self._behind.close()

    def _write_file(
        self,
        path: Path,
        number: int,
        arrays: Mapping[str, FloatArray],
        index: RowIndex,
        layout: IndexLayout,
    ) -> None:
        """Write the HDF5 file of a shard under a temporary name."""
        with FileWriter(path, self._description, layout, n_rows=len(index), shard=number) as file:
            for dataset, values in zip(layout.datasets(), index.columns.values(), strict=True):
                file.write(dataset, 0, values)
            for view in self._description.views:
                file.write(view.column, 0, arrays[view.name])
            header = file.finish()
        check_sizes(header, path.stat().st_size, str(self._directory / shard_name(number)))

    def _commit(self, temporary: Path, number: int) -> None:
        """Make a written shard durable and give it its name."""
        with _removed_on_failure(temporary, self._directory / shard_name(number)):
            commit_shard(self._directory, temporary, number)


@contextmanager
def _removed_on_failure(temporary: Path, shard: Path) -> Iterator[None]:
    """Leave no temporary file behind, and name the shard that could not be written."""
    try:
        yield
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if not shard.parent.is_dir():
            raise StoreError(
                f"{shard.parent}: is gone, another process completed or removed this store; write "
                "to another path, or one process at a time"
            ) from error
        if isinstance(error, OSError | RuntimeError):
            reason = " ".join(str(error).split())[:160]
            raise StoreError(f"{shard}: cannot be written ({reason})") from error
        raise
