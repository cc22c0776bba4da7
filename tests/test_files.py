import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from repalign import InputError, StoreError
from repalign.files import check_output, check_regular, open_regular, protecting, writing


def test_a_file_is_opened_through_a_link_too(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("x")
    with open_regular(tmp_path / "link") as stream:
        assert stream.read() == b"abc"


def test_an_output_elsewhere_is_called_a_url() -> None:
    with pytest.raises(InputError, match=r"s3:/+bucket/x\.csv\b.* URL"):
        check_output("s3://bucket/x.csv")


# Without the refusal these would wait for a writer, or never end.
def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a pipe"):
        open_regular(tmp_path / "pipe")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full"])
def test_a_device_is_refused(device: str) -> None:
    with pytest.raises(InputError, match="a device"):
        check_regular(device)


def test_a_directory_and_a_socket_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a directory"):
        open_regular(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises(InputError, match="a socket"):
            open_regular(tmp_path / "socket")


@pytest.mark.parametrize("name", ["none", "a\0b", "x" * 300])
def test_what_is_not_there_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match=r"no such file|cannot be read"):
        open_regular(tmp_path / name, failure=StoreError)


def test_a_refused_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    for _ in range(2):  # what earlier tests left may be closed meanwhile: look at this one alone
        with pytest.raises(InputError):
            open_regular(tmp_path)
    held = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    assert str(tmp_path.resolve()) not in held


def write(path: Path | str, text: str = "new", **options) -> None:
    with writing(path, **options) as whole:
        whole.write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_as_a_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    (tmp_path / "x").chmod(0o640)
    with (tmp_path / "x").open() as reader:
        write(tmp_path / "x")
        assert reader.read() == "old"
    assert (tmp_path / "x").read_text() == "new"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["x"]


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    with pytest.raises(TypeError), writing(tmp_path / "x") as whole:
        whole.write_text(b"no text")  # type: ignore[arg-type]
    assert (tmp_path / "x").read_text() == "old"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_followed_and_stays(tmp_path: Path, is_there: bool) -> None:
    (tmp_path / "folder").mkdir()
    if is_there:
        (tmp_path / "folder" / "x").write_text("old")
    (tmp_path / "second").symlink_to(tmp_path / "folder" / "x")
    (tmp_path / "first").symlink_to("second")
    write(tmp_path / "first")
    assert (tmp_path / "folder" / "x").read_text() == "new"
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert names(tmp_path / "folder") == ["x"]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a link to somebody else")
def test_a_link_of_somebody_else_where_everybody_writes_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    (folder / "out").symlink_to(tmp_path / "mine")
    write(folder / "out")
    (tmp_path / "mine").write_text("mine")
    os.lchown(folder / "out", 12345, 12345)
    with pytest.raises(InputError, match=r"out\b.*\ba link\b"):
        write(folder / "out")
    assert (tmp_path / "mine").read_text() == "mine"


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InputError, match="written"):
        write(tmp_path / "a")


def test_a_device_is_written_into(tmp_path: Path) -> None:
    write("/dev/null")
    assert Path("/dev/null").is_char_device()
    (tmp_path / "link").symlink_to("/dev/null")
    write(tmp_path / "link", overwrite=False)
    assert (tmp_path / "link").is_char_device()
    with pytest.raises(OSError, match="No space left"):
        write("/dev/full")


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / "pipe").read_text)
        write(tmp_path / "pipe", "x" * 200_000)
        assert read.result() == "x" * 200_000
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("output", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_written_into_where_the_shell_has_it(tmp_path: Path, output) -> None:
    code = (
        f"from repalign.files import writing\nprint('before', flush=True)\n"
        f"with writing({output!r}) as whole: whole.write_text('data\\n')\nprint('after')"
    )
    with (tmp_path / "x").open("a") as stdout:
        subprocess.run([sys.executable, "-c", code], stdout=stdout, check=True)
    assert (tmp_path / "x").read_text() == "before\ndata\nafter\n"


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: path.mkdir(), "a directory"),
        (lambda path: path.write_text("old"), "exists"),
    ],
)
def test_what_may_not_be_replaced_is_refused(tmp_path: Path, prepare, message: str) -> None:
    prepare(tmp_path / "x")
    with pytest.raises(StoreError, match=message):
        write(tmp_path / "x", overwrite=False, failure=StoreError)
    assert names(tmp_path) == ["x"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_only_be_written_takes_an_output(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box").chmod(0o300)
    write(tmp_path / "box" / "x")
    assert (tmp_path / "box" / "x").read_text() == "new"
    (tmp_path / "box").chmod(0o700)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no directory .*none"):
        write(tmp_path / "none" / "x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_may_only_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    (tmp_path / "x").chmod(0o400)
    with pytest.raises(InputError, match="only be read"):
        write(tmp_path / "x")


@pytest.mark.parametrize("alias", ["x", "link", "hard", "sub/../x"])
def test_an_input_is_never_replaced_whatever_it_is_called(tmp_path: Path, alias: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "x").write_text("old")
    (tmp_path / "link").symlink_to("x")
    (tmp_path / "hard").hardlink_to(tmp_path / "x")
    with protecting([tmp_path / "none", tmp_path / "x"]):
        with pytest.raises(InputError, match=r"the input .*x"):
            write(tmp_path / alias)
        write(tmp_path / "other")
    assert (tmp_path / "x").read_text() == "old"
    write(tmp_path / alias)
    assert (tmp_path / "x" if alias != "hard" else tmp_path / "hard").read_text() == "new"


def test_a_file_within_an_input_directory_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "part").write_text("old")
    with protecting([tmp_path / "store"]), pytest.raises(InputError, match=r"lies in .*store"):
        write(tmp_path / "store" / "part")
    with protecting([tmp_path / "store"]):
        write(tmp_path / "store" / "new")
