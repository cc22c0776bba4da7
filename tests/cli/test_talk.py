"""What is said on stderr."""

import contextlib
import os
import pty
import re
import subprocess
import sys

import pytest

from repalign.cli.talk import Talk

WIDTHS = [[f"widths differ (6 and {width}): cut", f"{name}: by order"] for width, name in
          ((4, "a.h5"), (4, "b.h5"), (3, "c.h5"), (2, "d.h5"))]  # fmt: skip
NAMES = ["a.h5", "b.h5", "c.h5", "d.h5"]


def test_warnings_of_many_pairs_that_differ_in_names_and_numbers_are_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Talk().warn_of_pairs([*WIDTHS, ["of its own"]], NAMES)
    widths, order, alone = capsys.readouterr().err.splitlines()
    assert re.search(r"4 pairs.* widths differ \(6 and 4\): cut\b.*--verbose", widths)
    assert re.search(r"4 pairs.* a\.h5: by order\b.*--verbose", order)
    assert alone == "warning: of its own"


def test_few_warnings_are_all_told_once_and_verbose_tells_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Talk().warn_of_pairs(WIDTHS[:2], NAMES)
    told = ["widths differ (6 and 4): cut", "a.h5: by order", "b.h5: by order"]
    assert capsys.readouterr().err.splitlines() == [f"warning: {text}" for text in told]
    Talk(verbose=True).warn_of_pairs(WIDTHS, NAMES)
    assert len(capsys.readouterr().err.splitlines()) == 7


def test_what_is_said_beside_a_bar_stands_above_it() -> None:
    code = (
        "from repalign.cli.talk import Talk\n"
        "talk = Talk()\n"
        "with talk.progress('working') as on_progress:\n"
        "    on_progress(1, 2)\n"
        "    talk.note('said meanwhile')\n"
    )
    shown = on_terminal([sys.executable, "-c", code])
    # the line of the bar is erased before
    assert re.search(r"\x1b\[2K(\x1b\[[\d;]*m)*said meanwhile", shown), repr(shown)


def on_terminal(command: list[str]) -> str:
    """Return what a command writes on a terminal."""
    here, there = pty.openpty()
    with subprocess.Popen(command, stdin=there, stdout=there, stderr=there) as process:
        os.close(there)
        written = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while block := os.read(here, 4096):
                written += block
    os.close(here)
    assert process.returncode == 0, written
    return written.decode()
