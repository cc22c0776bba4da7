"""Members of zip archives (``.npz``, ``.pt``) that are stored as they are, read by position."""

import struct
import zipfile
from pathlib import Path

LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, then the lengths of name and extra field


def data_start(path: Path, info: zipfile.ZipInfo) -> int:
    """Return the byte of an archive at which the content of a member starts."""
    with path.open("rb") as stream:
        stream.seek(info.header_offset)
        _, name_length, extra_length = LOCAL_HEADER.unpack(stream.read(LOCAL_HEADER.size))
    return int(info.header_offset + LOCAL_HEADER.size + name_length + extra_length)
