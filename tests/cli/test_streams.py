"""The process as a whole: closed and full streams, encodings, interrupts, odd environments."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repalign import doctor

INTERRUPTED_IMPORT = """
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "repalign.cli.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from repalign.__main__ import main
main()
"""


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = command.replace("repalign", f"{sys.executable} -m repalign")
    return subprocess.run(
        ["/bin/sh", "-c", line],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
        env=os.environ | environment,
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("repalign --help > /dev/full", "No space left on device"),
        ("repalign models -q > /dev/full", "No space left on device"),
        ("repalign --help >&-", "stdout"),
        ("repalign models -q >&-", "stdout"),
    ],
)
def test_a_stdout_that_takes_nothing_is_one_line_and_exit_code_1(command, message) -> None:
    ran = shell(command)
    assert ran.returncode == 1
    assert message in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


def test_a_result_in_a_file_needs_no_stdout(tmp_path: Path) -> None:
    ran = shell(f"repalign models -q -o {tmp_path}/models.csv <&- >&-")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (tmp_path / "models.csv").read_text().startswith("preset,")


def test_an_encoding_that_knows_no_arrow_shows_numbers() -> None:
    ran = shell("repalign models -q -f table", PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.isascii()
    assert "+--" in ran.stdout or "|" in ran.stdout
    assert shell("repalign --help", PYTHONIOENCODING="ascii").returncode == 0


def test_a_name_that_is_no_text_is_shown_by_its_numbers(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff\x1b[2Jx.npy"
    ran = subprocess.run(
        [sys.executable.encode(), b"-m", b"repalign", b"store", b"info", name],
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 1
    assert rb"\udcff\x1b[2Jx.npy" in ran.stderr.replace(b"\n", b"")


def test_an_interrupt_while_modules_are_loaded_is_quiet() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("value", "is_on"), [("0", False), ("", False), ("off", False), ("1", True)]
)
def test_debug_of_the_environment_can_be_off(value: str, is_on: bool) -> None:
    ran = shell("repalign store info /no/such/file", REPALIGN_DEBUG=value)
    assert ("Traceback" in ran.stderr) is is_on
    assert ran.returncode == 1


def test_a_home_that_is_not_there_is_a_finding(monkeypatch) -> None:
    monkeypatch.setenv("HOME", "/no/such/home")
    monkeypatch.delenv("HF_HOME", raising=False)
    found = doctor.find_disk("home", doctor.home_folder())
    assert found.status == "problem"
    assert "/no/such/home" in found.found
    assert "/no/such/home/.cache/huggingface" in doctor.find_hub().found
    assert doctor.find_disk("home", None).status == "problem"
