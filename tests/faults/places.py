"""Commands where little works: a full disk, few descriptors, little memory, odd environments."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repalign.files import UNFINISHED
from tests.faults.counts import TRACEBACK, Counts, Outcome
from tests.faults.forks import Ended, Limits, import_all
from tests.faults.lines import EXIT_CODES, copied, judged, make_files, run_apart

ROOT = Path(__file__).parents[2]
WRITE = (
    ("store", "import", "a.npy", "disk/new.h5"),
    ("store", "import", "a.npy", "disk/new"),
    ("store", "export", "a.h5", "disk/new.npz"),
    ("store", "export", "a.h5", "disk/new.csv"),
    ("apply", "map.safetensors", "a.h5", "-o", "disk/new.h5"),
    ("report", "result.csv", "-o", "disk/new.html"),
    ("store", "info", "a.h5", "-o", "disk/new.json"),
)
READ = (("store", "verify", "a.h5", "b.h5"), ("store", "head", "a.npy"), ("report", "result.json"))
LIMITS = (
    Limits(files=12), Limits(files=20), Limits(file_bytes=4096),
    Limits(address_bytes=2**20), Limits(address_bytes=2**25),
)  # fmt: skip


@dataclass(frozen=True)
class Surroundings:
    """What a whole new process finds around it."""

    name: str
    environment: dict[str, str]
    before: str = ""
    line: tuple[str, ...] = ("store", "info", "a.h5", "-f", "table")


AROUND = (
    Surroundings("HOME that is not there", {"HOME": "/none/home"}),
    Surroundings("HOME that is not there, doctor", {"HOME": "/none/home"}, line=("doctor",)),
    Surroundings("LANG=C", {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"}),
    Surroundings("ascii", {"PYTHONIOENCODING": "ascii"}, line=("models",)),
    Surroundings("TERM=dumb", {"TERM": "dumb", "COLUMNS": "1"}, line=("compare", "--help")),
    Surroundings("closed stdout", {}, "exec >&-; "),
    Surroundings("closed streams", {}, "exec <&- >&- 2>&-; "),
    Surroundings("full stdout", {}, "exec >/dev/full; "),
    Surroundings("full stdout, help", {}, "exec >/dev/full; ", ("--help",)),
    Surroundings("a folder that was removed", {}, "mkdir x && cd x && rmdir ../x; ", ("models",)),
    Surroundings("TMPDIR that is not there", {"TMPDIR": "/none"}),
    Surroundings("debug off", {"REPALIGN_DEBUG": "0"}, line=("store", "info", "none.h5")),
)


def odd_places(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Run commands in every place; ``count`` bounds how many, the seed changes nothing."""
    import_all()
    counts = Counts("odd places")
    files = folder / "files"
    files.mkdir()
    make_files(files)
    for what, act in [*_cases(files)][:count]:
        outcome, why = act()
        counts.add(outcome, f"{what}: {why}")
    return counts


def _cases(files: Path) -> Iterator[tuple[str, Callable[[], tuple[Outcome, str]]]]:
    for each in AROUND:
        yield each.name, lambda each=each: _around(each, files)
    yield "two at once", lambda: _two_at_once(files)
    for line in WRITE:
        yield f"full disk: {line}", lambda line=line: _full_disk(line, files)
        yield f"read-only disk: {line}", lambda line=line: _read_only(line, files)
    for limits in LIMITS:
        for line in (*WRITE, *READ):
            yield f"{limits}: {line}", lambda l=line, m=limits: _limited(l, m, files)  # noqa: E741


def _around(given: Surroundings, files: Path) -> tuple[Outcome, str]:
    with copied(files) as place:
        command = given.before + f'exec "{sys.executable}" -m repalign "$@"'
        ran = subprocess.run(
            ["sh", "-c", command, "sh", *given.line], cwd=place, capture_output=True, text=True,
            timeout=120, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), **given.environment},
        )  # fmt: skip
    if TRACEBACK in ran.stderr or "Exception ignored" in ran.stderr:
        return "traceback", ran.stderr[-500:]
    if ran.returncode not in EXIT_CODES:
        return "traceback", f"status {ran.returncode}"
    return ("refused" if ran.returncode else "equal"), ""


def _two_at_once(files: Path) -> tuple[Outcome, str]:
    """Two processes write one store: at least one does, and what is there is whole."""
    line = ["store", "import", "a.npy", "new.h5", "--ids", "ids.txt"]
    with copied(files) as place:
        ended: list[Ended] = []
        both = [
            threading.Thread(target=lambda: ended.append(run_apart(line, place))) for _ in range(2)
        ]
        for each in both:
            each.start()
        for each in both:
            each.join()
        bad = [judged(each) for each in ended if judged(each)[0] not in ("equal", "refused")]
        if bad:
            return bad[0]
        checked = run_apart(["store", "verify", "new.h5"], place)
        if {each.status for each in ended} == {1} or checked.status:
            return "wrong", f"{[each.said for each in ended]} {checked.said}"
        return "equal", ""


def _full_disk(line: Sequence[str], files: Path) -> tuple[Outcome, str]:
    """Write where there is room for nothing, then where there is."""
    with copied(files) as place, _disk(place / "disk", "size=16k") as disk:
        if disk is None:
            return "refused", "no file system can be mounted here"
        (disk / "filler").write_bytes(bytes(12 << 10))
        ended = run_apart(line, place)
        outcome, why = judged(ended)
        left = {path.name for path in disk.rglob("*")} - {"filler"}
        if outcome == "refused" and any(not name.endswith(".parts") for name in left):
            return "wrong", f"left {left}"
        if outcome not in ("refused", "equal"):
            return outcome, why
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        again = run_apart(line, place) if outcome == "refused" else ended
        return (outcome, "") if again.status == 0 else ("wrong", f"again: {again.said[-300:]}")


def _read_only(line: Sequence[str], files: Path) -> tuple[Outcome, str]:
    with copied(files) as place, _disk(place / "disk", "size=1m,ro") as disk:
        outcome, why = judged(run_apart(line, place))
        if disk is not None and outcome == "equal":
            return "wrong", "it says that it wrote"
        return outcome, why


def _limited(line: Sequence[str], limits: Limits, files: Path) -> tuple[Outcome, str]:
    with copied(files) as place:
        (place / "disk").mkdir()
        ended = run_apart(line, place, limits=limits)
        outcome, why = judged(ended)
        left = [path for path in (place / "disk").rglob("*") if path.name.startswith(UNFINISHED)]
        return ("wrong", f"left {left}") if left else (outcome, why)


@contextmanager
def _disk(place: Path, options: str) -> Iterator[Any]:
    """Mount a small file system of memory, where that is allowed; else give None."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "faults", str(place)]
    can = (
        shutil.which("mount")
        and not subprocess.run(command, check=False, capture_output=True).returncode
    )
    try:
        yield place if can else None
    finally:
        if can:
            subprocess.run(["umount", str(place)], check=True)
