"""Members of zip archives (``.npz``, ``.pt``) that are stored as they are, read by position."""

import struct
import zipfile
from pathlib import Path

from repalign.exceptions import InputError

LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, then the lengths of name and extra field


def data_start(path: Path, info: zipfile.ZipInfo) -> int:
    """Return the byte of an archive at which the content of a member starts.

    Raises:
        InputError: there is no header of a member where the archive says.
    """
    with path.open("rb") as stream:
        stream.seek(info.header_offset)
        header = stream.read(LOCAL_HEADER.size)
    if len(header) < LOCAL_HEADER.size:
        raise InputError(f"{path}::{info.filename}: the archive ends inside it; write it again")
    _, name_length, extra_length = LOCAL_HEADER.unpack(header)
    return int(info.header_offset + LOCAL_HEADER.size + name_length + extra_length)
