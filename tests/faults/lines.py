"""Random command lines, valid and not, over small files of every kind."""

import contextlib
import json
import os
import random
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
from typer.testing import CliRunner

from repalign.__main__ import main
from repalign.cli.app import app
from repalign.cli.reference import commands
from repalign.store.map_file import SavedMap, save_map
from tests.faults.counts import TRACEBACK, Counts, Outcome
from tests.faults.damage import HOSTILE
from tests.faults.forks import Ended, forked, import_all
from tests.faults.own import small_results

Choose = Callable[[Sequence[Any]], Any]
EXIT_CODES = {0, 1, 2, 3, 130, 143}
# That of a bug, which counts as a traceback.
BUG = 70
# These train, compute or load every library when nothing is wrong with the line.
LONG = {"repalign demo", "repalign doctor", "repalign zoo train"}
# The last starts a cluster, which benchmarks/cluster.py attacks.
NEVER = {"--show-completion", "--install-completion", "--help", "--engine"}
NUMBERS = ("-1", "0", "1", "2", "5", "x", "nan", "1e400", "")
TEXTS = ("", "x", "rigid", "mean,rigid", "id", "raw", "all", "1,2", HOSTILE, "-", "::", "a" * 300)
FILES = (
    "a.h5", "b.h5", "a.h5::a", "a.h5::none", "a.npy", "b.npy", "short.npy", "nan.npy", "empty.npy",
    "ids.txt", "factors.csv", "result.json", "result.csv", "map.safetensors", "noise.h5",
    "noise.json", "noise.npy", "noise.safetensors", "noise.csv", "empty.csv", "folder", "pipe",
    "socket", "link.npy", "circle", "none.npy", "/dev/null", "/dev/zero", "/", "", "\udcff.npy",
    HOSTILE.replace("/", "_"), "x" * 300,
)  # fmt: skip
SOUND = ("a.h5", "b.h5", "a.npy", "b.npy", "result.json", "factors.csv", "map.safetensors")
OUTPUTS = (
    "new.csv", "new.json", "new.md", "new.tex", "new.txt", "new.h5", "new.npy", "new.png", "-",
    "new", "a.h5", "a.npy", "result.json", "folder", "none/x.csv", "/dev/null", "/dev/full",
    "link.npy", "circle", "new.xyz", "",
)  # fmt: skip
WRITTEN_OPTIONS = {"--output", "--plot", "--save-maps", "--save-transform"}
WRITTEN_ARGUMENTS = {"out"}
# These keep finished work in the user's folder for caches.
KEEPS = {"repalign compare", "repalign rerun"}


def make_files(folder: Path) -> None:
    """Write files of every kind, sound, empty and damaged, and what is no file at all."""
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(40, 3)) * [1, 2, 3]
    np.save(folder / "a.npy", x)
    np.save(folder / "b.npy", x[:, ::-1] + 0.1 * rng.standard_normal(x.shape))
    np.save(folder / "short.npy", x[:3])
    np.save(folder / "nan.npy", np.where(x > 3, np.nan, x))
    np.save(folder / "empty.npy", x[:0])
    (folder / "ids.txt").write_text("".join(f"row{i}\n" for i in range(40)))
    rows = [f"row{i},{i % 2},{i % 4},b{i % 3}\n" for i in range(40)]
    (folder / "factors.csv").write_text("id,f,label,batch\n" + "".join(rows))
    for name in ("a", "b"):
        ran = _run(["store", "import", f"{name}.npy", f"{name}.h5", "--ids", "ids.txt"], folder)
        assert ran.exit_code == 0, ran.output
    for ending, text in small_results().items():
        (folder / f"result.{ending}").write_text(text)
    save_map(SavedMap("rigid", np.eye(3), np.zeros(3), {}), folder / "map.safetensors")
    for ending in ("h5", "json", "npy", "safetensors", "csv"):
        (folder / f"noise.{ending}").write_bytes(random.Random(ending).randbytes(2000))
    (folder / "empty.csv").write_text("")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(folder):
        bound.bind("socket")
    (folder / "link.npy").symlink_to("a.npy")
    (folder / "circle").symlink_to("circle")


def random_line(words: str, command: Any, choose: Choose) -> list[str]:
    """Return the arguments of one call of a command."""
    options: list[str] = []
    arguments: list[str] = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            count = (
                choose((1, 1, 1, 2, 2, 3, 0)) if parameter.nargs != 1 else choose((1,) * 9 + (0,))
            )
            arguments += [_argument(parameter, choose) for _ in range(count)]
        elif not NEVER & set(parameter.opts) and choose(range(10)) == 0:
            flag = choose([*parameter.opts, *parameter.secondary_opts])
            options += [flag] if parameter.is_flag else [flag, _value(parameter, choose)]
    if words in LONG:
        options.append("--no-such-option")
    if words == "repalign extract":  # nothing is fetched, and nothing large computed
        arguments = [choose(("folder", "noise.safetensors", "timm:none", "none:x", "", HOSTILE))]
        options += ["--data", choose(FILES), "--output", choose(OUTPUTS)]
    line = [*words.split()[1:], *options, *arguments]
    if choose(range(12)) == 0:
        line.insert(choose(range(len(line) + 1)), choose(("--x", "-z", "", "--", "-f", HOSTILE)))
    return line


def run_line(line: Sequence[str], folder: Path) -> tuple[Outcome, str]:
    """Run a line in this process and return how it ended: ``equal`` if all went well."""
    ran = _run(line, folder)
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        return "traceback", f"{type(ran.exception).__name__}: {ran.exception}"
    if ran.exit_code not in EXIT_CODES:
        return "traceback", f"exit code {ran.exit_code}"
    return ("equal" if ran.exit_code == 0 else "refused"), ""


def drawn_lines(
    name: str, folder: Path, count: int, seed: int
) -> Iterator[tuple[list[str], str, Any, Path]]:
    """Draw lines of all commands in turn, with the command and a folder of files for them."""
    import_all()
    files = folder / "files"
    files.mkdir()
    make_files(files)
    leaves = leaf_commands()
    for number in range(count):
        words, command = leaves[number % len(leaves)]
        rng = random.Random(f"{name} {seed} {number}")
        yield random_line(words, command, rng.choice), words, command, files


def fuzz_lines(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Run random lines of all commands in turn, each as a program in a folder made anew."""
    counts = Counts("command lines")
    for line, words, command, files in drawn_lines("lines", folder, count, seed):
        with copied(files) as place:
            before = state_of(place)
            ended = run_apart(line, place)
            outcome, why = judged(ended)
            touched = sorted(state_of(place).items() ^ before.items())
            touched = [name for name, _ in touched if not may_write(line, words, command, name)]
        if touched:
            outcome, why = "wrong", f"touched {touched[:5]}"
        counts.add(outcome, f"{described(line)}: {why}")
        counts.used(ended, described(line))
    assert Path(os.devnull).is_char_device()
    return counts


def run_apart(
    line: Sequence[str], place: Path, *, prepare: Callable[[], None] | None = None, **more: Any
) -> Ended:
    """Run a line as the program does, with a home and a folder for temporary files of its own."""

    def act() -> None:
        if prepare is not None:
            prepare()
        sys.argv = ["repalign", *line]
        tempfile.tempdir = None
        main()

    around = {"HOME": str(place.parent / "home"), "TMPDIR": str(place.parent / "tmp")}
    return forked(act, place, environment={**around, **more.pop("environment", {})}, **more)


def judged(ended: Ended) -> tuple[Outcome, str]:
    """Return what became of a line, by its exit code and what it said."""
    if ended.is_hung:
        return "hang", ""
    if TRACEBACK in ended.said or ended.status not in EXIT_CODES:
        return "traceback", f"status {ended.status}: {ended.said[-600:]}"
    if ended.status == 0:
        return "equal", ""
    if not ended.said.strip():
        return "traceback", f"status {ended.status}, and not a word why"
    return "refused", ""


def state_of(place: Path) -> dict[str, tuple[int, ...]]:
    """Return what tells whether anything in a folder, or beside it, was written."""
    found = {}
    for path in [*place.parent.rglob("*")]:
        status = path.lstat()
        told = (status.st_mode, status.st_ino, 0, 0)
        if not stat.S_ISDIR(status.st_mode):
            told = (*told[:2], status.st_size, status.st_mtime_ns)
        found[os.path.relpath(path, place)] = told
    return found


def may_write(line: Sequence[str], words: str, command: Any, name: str) -> bool:
    """Tell whether a line names a file as its output, or a folder that it lies in.

    What the line names elsewhere too is one of its inputs, which stay.
    """
    if words in KEEPS and name.startswith("../home/.cache"):
        return True
    named, inputs = _outputs_and_inputs(line, command)
    if words == "repalign report":
        named |= {str(Path(word).with_suffix(".html")) for word in line if word in FILES and word}
    if "link.npy" in named - inputs:
        named.add("a.npy")
    named |= {f"{word}.parts" for word in named} | {f"{Path(word).stem}.ids.txt" for word in named}
    if name in {str(Path(word).parent) for word in named if not word.startswith("/")} - {"."}:
        return True
    parts = Path(name).parts
    return any("/".join(parts[: n + 1]) in named - inputs for n in range(len(parts)))


def _outputs_and_inputs(line: Sequence[str], command: Any) -> tuple[set[str], set[str]]:
    flags = {
        flag for each in command.params if WRITTEN_OPTIONS & set(each.opts) for flag in each.opts
    }
    is_last = any(each.name in WRITTEN_ARGUMENTS for each in command.params)
    outputs, inputs = set(), set()
    for number, word in enumerate(line):
        is_output = line[number - 1] in flags or (is_last and number == len(line) - 1)
        (outputs if is_output else inputs).add(word.split("::")[0])
    return outputs, inputs


def leaf_commands() -> list[tuple[str, Any]]:
    """Return every command that is no group, with the words that call it."""
    return [(words, each) for words, each in commands() if not getattr(each, "commands", None)]


@contextlib.contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """Give a copy of a folder of files, with its pipe, which is deleted again."""
    around = folder.with_name("around")
    place = around / "copy"
    for each in (around, around / "home", around / "tmp", around / "outside"):
        each.mkdir()
    (around / "outside" / "file").write_text("nobody writes here\n")
    shutil.copytree(folder, place, symlinks=True, ignore=shutil.ignore_patterns("pipe", "socket"))
    os.mkfifo(place / "pipe")
    try:
        yield place
    finally:
        shutil.rmtree(around)


def _run(line: Sequence[str], folder: Path) -> Any:
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, list(line))


def _argument(parameter: Any, choose: Choose) -> str:
    if parameter.name in WRITTEN_ARGUMENTS:
        return choose(OUTPUTS)
    return choose(choose((SOUND, SOUND, FILES)))


def _value(parameter: Any, choose: Choose) -> str:
    kind = parameter.type_descriptor.annotation
    if get_origin(kind) is Literal:
        return choose((*map(str, get_args(kind)), "x"))
    if WRITTEN_OPTIONS & set(parameter.opts):
        return choose(OUTPUTS)
    if kind in (int, float):
        return choose(NUMBERS)
    return choose((*FILES, *NUMBERS, *TEXTS))


def described(line: Sequence[str]) -> str:
    """Return a line as it can be given again."""
    return json.dumps(list(line))
