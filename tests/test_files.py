import os
import socket
from pathlib import Path

import pytest

from repalign import InputError, StoreError
from repalign.files import check_regular, open_regular


def test_a_file_is_opened_through_a_link_too(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("x")
    with open_regular(tmp_path / "link") as stream:
        assert stream.read() == b"abc"


# Without the refusal these would wait for a writer, or never end.
def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe: is a pipe, expected a file; write its content"):
        open_regular(tmp_path / "pipe")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full"])
def test_a_device_is_refused(device: str) -> None:
    with pytest.raises(InputError, match="is a device, expected a file"):
        check_regular(device)


def test_a_directory_and_a_socket_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a directory, expected a file$"):
        open_regular(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises(InputError, match="socket: is a socket, expected a file"):
            open_regular(tmp_path / "socket")


@pytest.mark.parametrize("name", ["none", "a\0b", "x" * 300])
def test_what_is_not_there_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match=r"no such file|cannot be read"):
        open_regular(tmp_path / name, failure=StoreError)


def test_a_refused_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(InputError):
        open_regular(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
