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
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.MessageReader.open_stream(source)
        while True:
            try:
                message = reader.read_next_message()
            except StopIteration:
                return
            try:
                expanded = sum(_sizes(bytes(message.metadata), message.body))
            except (struct.error, IndexError) as error:
                raise InputError(f"{path}: holds a message of no form; is it damaged?") from error
            check_expansion(stored, expanded, label=str(path))


def _sizes(head: bytes, body: object) -> Iterator[int]:
    """Yield the size of every compressed buffer of a message."""
    message = _Table(head, _unsigned(head, 0))
    kind, place = message.place(_KIND), message.table(_HEAD)
    number = None if kind is None else head[kind]
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
        offset, length = struct.unpack_from("<qq", head, first + 4 + 16 * index)
        if length:
            (size,) = struct.unpack_from("<q", content, offset)
            yield max(0, size)  # -1: this one is not compressed


class _Table:
    """A table of a flatbuffer: its fields lie where the table in front of it says."""

    def __init__(self, content: bytes, start: int) -> None:
        self._content, self._start = content, start
        self._fields = start - struct.unpack_from("<i", content, start)[0]

    def place(self, number: int) -> int | None:
        """Return where a field lies, None where it is left out."""
        (length,) = struct.unpack_from("<H", self._content, self._fields)
        at = 4 + 2 * number
        if at + 2 > length:
            return None
        (offset,) = struct.unpack_from("<H", self._content, self._fields + at)
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
    return int(struct.unpack_from("<I", content, place)[0])
