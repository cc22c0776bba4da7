"""What the compressed buffers of an Arrow file say they become, before any is expanded.

``Dataset.save_to_disk`` does not compress, so that rows are read in place; a stranger's file may be
compressed, and Arrow expands a batch as a whole, whatever its size. Each buffer begins with its
size; where the buffers are says the head of the message, a flatbuffer (``Message.fbs``).
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from repalign.exceptions import InputError
from repalign.expansion import check_expansion
from repalign.parquet import reading_arrow

NOT_ARROW = "not a readable Arrow file"

# Numbers of fields in their tables, and of the kinds of heads.
_KIND, _HEAD = 1, 2
_DICTIONARY, _BATCH = 2, 3
_BATCH_OF_DICTIONARY = 1
_BUFFERS, _COMPRESSION = 2, 3


def check_messages(path: Path) -> None:
    """Check that no batch of an Arrow file expands to more than it may.

    Raises:
        InputError: One does, or its head cannot be read.
    """
    import pyarrow as pa

    stored = path.stat().st_size
    with reading_arrow(path, NOT_ARROW):
        source = pa.memory_map(str(path))
    with source:
        with reading_arrow(path, NOT_ARROW):
            reader = pa.ipc.MessageReader.open_stream(source)
        while True:
            with reading_arrow(path, NOT_ARROW):
                try:
                    message = reader.read_next_message()
                except StopIteration:
                    return
                head, body = bytes(message.metadata), message.body
            try:
                expanded = sum(_sizes(head, body))
            except _BeyondEndError as error:
                raise InputError(f"{path}: holds a message of no form; is it damaged?") from error
            check_expansion(stored, expanded, label=str(path))


class _BeyondEndError(ValueError):
    """A head of a message leads to a place outside of it."""


def _sizes(head: bytes, body: object) -> Iterator[int]:
    """Yield the size of every compressed buffer of a message."""
    message = _Table(head, _unsigned(head, 0))
    kind, place = message.place(_KIND), message.table(_HEAD)
    number = None if kind is None else _unpack("<B", head, kind)[0]
    batch = place
    if place is not None and number == _DICTIONARY:
        batch = place.table(_BATCH_OF_DICTIONARY)
    if number not in (_DICTIONARY, _BATCH) or batch is None or body is None:
        return
    buffers = batch.place(_BUFFERS)
    if buffers is None or batch.place(_COMPRESSION) is None:
        return
    content = memoryview(body)  # type: ignore[arg-type]
    first = buffers + _unsigned(head, buffers)
    for index in range(_unsigned(head, first)):
        offset, length = _unpack("<qq", head, first + 4 + 16 * index)
        if length:
            (size,) = _unpack("<q", content, offset)
            yield max(0, size)  # -1: this one is not compressed


class _Table:
    """A table of a flatbuffer: its fields lie where the table in front of it says."""

    def __init__(self, content: bytes, start: int) -> None:
        self._content, self._start = content, start
        self._fields = start - _unpack("<i", content, start)[0]

    def place(self, number: int) -> int | None:
        """Return where a field lies, None where it is left out."""
        (length,) = _unpack("<H", self._content, self._fields)
        at = 4 + 2 * number
        if at + 2 > length:
            return None
        (offset,) = _unpack("<H", self._content, self._fields + at)
        return self._start + offset if offset else None

    def table(self, number: int) -> "_Table | None":
        """Return the table in a field, None where it is left out."""
        place = self.place(number)
        return (
            None
            if place is None
            else _Table(self._content, place + _unsigned(self._content, place))
        )


def _unsigned(content: bytes, place: int) -> int:
    return int(_unpack("<I", content, place)[0])


def _unpack(form: str, content: bytes | memoryview, place: int) -> tuple[int, ...]:
    if not 0 <= place <= len(content) - struct.calcsize(form):
        raise _BeyondEndError
    return struct.unpack_from(form, content, place)
