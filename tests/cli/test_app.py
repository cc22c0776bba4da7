import errno
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from repalign import GateError, InputError, MissingExtraError, __version__
from repalign.cli.app import RepalignGroup, app, hoist_root_flags, root
from repalign.cli.talk import talk_of

FAILURES = {
    "input": InputError("got 3,\n expected 2"),
    "gate": GateError("rigid error 0.2 is above 0.15"),
    "extra": MissingExtraError("pyarrow", extra="parquet", purpose="reading x.parquet"),
    "disk": OSError(errno.ENOSPC, "No space left on device", "out.h5"),
    "memory": MemoryError(),
    "interrupt": KeyboardInterrupt(),
    "library": ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    "bug": ZeroDivisionError("a real bug"),
}


@pytest.fixture
def failing() -> typer.Typer:
    """A command line with the real root and a command that fails in the wanted way."""
    failing = typer.Typer(cls=RepalignGroup, pretty_exceptions_enable=False)
    failing.callback()(root)
    nested = typer.Typer()
    failing.add_typer(nested, name="nested")

    @nested.command()
    def fail(context: typer.Context, how: str) -> None:
        talk_of(context).note("a note")
        raise FAILURES[how]

    @nested.command()
    def other() -> None: ...

    return failing


@pytest.mark.parametrize(
    ("how", "code", "line"),
    [
        ("input", 1, "error: got 3, expected 2"),
        ("gate", 3, "error: rigid error 0.2 is above 0.15"),
        ("extra", 1, "pip install pyarrow"),
        ("disk", 1, "out.h5"),
        ("memory", 1, "memory"),
        ("library", 1, "memory"),
        ("interrupt", 130, "interrupted"),
    ],
)
def test_an_expected_failure_is_one_line_and_an_exit_code(failing, how, code, line) -> None:
    result = CliRunner().invoke(failing, ["nested", "fail", how, "--quiet"])
    assert result.exit_code == code
    assert result.stdout == ""
    assert line in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_debug_lets_the_traceback_through(failing) -> None:
    result = CliRunner().invoke(failing, ["nested", "fail", "input", "--debug"])
    assert isinstance(result.exception, InputError)


def test_a_bug_is_never_hidden(failing) -> None:
    result = CliRunner().invoke(failing, ["nested", "fail", "bug"])
    assert isinstance(result.exception, ZeroDivisionError)


BROKEN = """
import repalign.doctor as diagnose
diagnose.diagnose = lambda: 1 / 0
from repalign.__main__ import main
main()
"""


def test_a_bug_is_one_line_that_asks_for_a_report() -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-c", BROKEN, "doctor", *words]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    plain, debugging = run(), run("--debug")
    assert (plain.returncode, plain.stdout) == (70, "")
    (line,) = plain.stderr.splitlines()
    assert "ZeroDivisionError" in line
    assert "--debug" in line
    assert debugging.returncode == 70
    assert "Traceback" in debugging.stderr


EARLY = """
import os, signal
from repalign.cli.app import RepalignGroup, main
RepalignGroup.parse_args = lambda *arguments: os.kill(os.getpid(), signal.{name})
main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_before_the_command_has_the_same_code_as_later(name: str, code: int) -> None:
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program += EARLY.format(name=name)
    ran = subprocess.run(
        [sys.executable, "-c", program, "doctor"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr


def test_quiet_hides_notes(failing) -> None:
    loud = CliRunner().invoke(failing, ["nested", "fail", "input"])
    quiet = CliRunner().invoke(failing, ["-q", "nested", "fail", "input"])
    assert "a note" in loud.stderr
    assert "a note" not in quiet.stderr


def test_root_flags_move_to_the_front_but_not_from_behind_two_dashes() -> None:
    moved = hoist_root_flags(["store", "info", "-q", "x", "--debug", "--", "-v"])
    assert moved == ["-q", "--debug", "store", "info", "x", "--", "-v"]


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.stdout == f"repalign {__version__}\n"


def test_an_unknown_command_is_wrong_usage() -> None:
    assert CliRunner().invoke(app, ["no-such-command"]).exit_code == 2


def test_the_module_runs_as_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "repalign", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"repalign {__version__}\n"


def test_shell_completion_prints_a_script() -> None:
    ran = subprocess.run(
        # typer asks which shell it was started from
        ["bash", "-c", f"{shlex.quote(sys.executable)} -m repalign --show-completion bash; true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "repalign" in ran.stdout + ran.stderr


def test_help_is_wrapped_by_the_terminal_and_leaves_it_most_of_the_line() -> None:
    """Lines of a docstring are no lines of the help, and types take little of 80 columns."""
    told = CliRunner().invoke(app, ["compare", "--help"], env={"COLUMNS": "80"}).stdout
    lines = [line.strip() for line in told.splitlines()]
    first = next(n for n, line in enumerate(lines) if line.startswith("Prints the paper's"))
    assert min(map(len, lines[first : first + 3])) > 60
    flag = next(line for line in lines if line.startswith("│ --both"))
    assert flag.index("Map in both directions.") < 50
    for noise in ("<int range>", "<bool>  Map", "latex|"):
        assert noise not in told


@pytest.mark.parametrize(
    ("number", "what", "code"),
    [(signal.SIGTERM, "terminated", 143), (signal.SIGINT, "interrupted", 130)],
)
def test_a_signal_ends_a_command_in_order(
    tmp_path: Path, number: int, what: str, code: int
) -> None:
    # whoever runs the tests in the background may have told them to ignore Ctrl-C
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from repalign.__main__ import main; main()"
    line = ["reproduce", "gaussian-null", "-o", str(tmp_path / "out"), "--workers", "2"]
    with subprocess.Popen(
        [sys.executable, "-c", start, *line],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        while not (tmp_path / "out" / "cases").exists():
            assert command.poll() is None
            time.sleep(0.1)
        command.send_signal(number)
        out, err = command.communicate(timeout=60)
    assert command.returncode == code
    assert out == ""
    assert what in err.strip().splitlines()[-1]
