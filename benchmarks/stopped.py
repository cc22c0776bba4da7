"""Commands on Ray that are stopped themselves: what they leave, and what the next run gives.

python benchmarks/stopped.py [--count 9] [--seed 0] [--directory DIR] [compare extract reproduce]

Each of compare, extract and reproduce is started with ``--engine ray`` and stopped after a random
number of its finished units, in turn by Ctrl-C to its group, SIGTERM and SIGKILL to it alone
(``--signals`` for some of these). Then its processes are watched until none is left, and the same
command is run again.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from study import make_stores

from repalign.engine.cache import SUFFIX
from repalign.store import open_store
from repalign.zoo.shipped import shipped_path

SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
PATIENCE = 120.0
SCRATCH = "repalign-ray-*"


@dataclass(frozen=True)
class Command:
    """A command, where it keeps finished units, and what its result is."""

    line: tuple[str, ...]
    kept: str
    result: Callable[[Path], str]


def commands(stores: list[Path]) -> dict[str, Command]:
    ray = ("--engine", "ray")
    cheap = ("--maps", "rigid,linear,ica", "--null", "9", "--halves", "4", "--starts", "2")
    shipped = str(shipped_path("gpt-neox-seed0"))
    words = ("--limit", "64", "--shard-samples", "4", "--device", "cpu", "--max-length", "64")
    return {
        "compare": Command(
            ("compare", *map(str, stores), *cheap, *ray, "--workers", "2", "-o", "out.csv"),
            f"kept/*{SUFFIX}",
            lambda place: (place / "out.csv").read_text(),
        ),
        "extract": Command(
            ("extract", shipped, "--data", "builtin:shakespeare", *words, *ray, "-o", "out"),
            "out/part-*.h5",
            lambda place: _fingerprint(place / "out"),
        ),
        "reproduce": Command(
            ("reproduce", "gaussian-null", "--seeds", "2", *ray, "--workers", "2", "-o", "out"),
            "out/cases/*",
            lambda place: (place / "out" / "summary.csv").read_text(),
        ),
    }


def _fingerprint(path: Path) -> str:
    with open_store(path) as store:
        return store.fingerprint


def started(command: Command, place: Path) -> "subprocess.Popen[bytes]":
    place.mkdir(exist_ok=True)
    own = {"REPALIGN_CACHE": str(place / "kept"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "repalign", *command.line],
        cwd=place,
        env=os.environ | own,
        stdout=subprocess.DEVNULL,
        stderr=(place / "said").open("wb"),
        start_new_session=True,
    )


class Family:
    """A process and all that were ever seen below it, by number and time of birth."""

    def __init__(self, root: int) -> None:
        self._root, self._known = root, set[tuple[int, str]]()

    def look(self) -> None:
        every = {pid: (int(stat[1]), stat[19]) for pid, stat in _processes()}
        ours = {self._root}
        while more := {pid for pid, (parent, _) in every.items() if parent in ours} - ours:
            ours |= more
        self._known |= {(pid, every[pid][1]) for pid in ours if pid in every}

    def living(self) -> list[str]:
        ours = [pid for pid, stat in _processes() if (pid, stat[19]) in self._known]
        lines = []
        for pid in ours:
            with suppress(OSError):
                lines.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:60])
        return lines


def _processes() -> Iterator[tuple[int, list[str]]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            stat = path.read_text().rpartition(")")[2].split()
            if stat[0] != "Z":
                yield int(path.parent.name), stat


def seconds_until(is_so: Callable[[], bool], patience: float = PATIENCE) -> float | None:
    begun = time.monotonic()
    while not is_so():
        if time.monotonic() - begun > patience:
            return None
        time.sleep(0.05)
    return time.monotonic() - begun


def stop(
    name: str, command: Command, place: Path, how: signal.Signals, after: int
) -> dict[str, Any]:
    """Stop a command after so many finished units, look at what is left, and run it again."""
    process = started(command, place)
    family = Family(process.pid)

    def is_time() -> bool:
        family.look()
        return n_kept() >= after or process.poll() is not None

    def n_kept() -> int:
        return len(list(place.glob(command.kept)))

    seconds_until(is_time, 10 * PATIENCE)
    was_over = process.poll() is not None
    with suppress(ProcessLookupError):  # it was over
        if how is signal.SIGINT:
            os.killpg(process.pid, how)
        else:
            os.kill(process.pid, how)
    process.wait()
    gone = seconds_until(lambda: not family.living())
    told = {
        "command": name,
        "signal": how.name,
        "units kept": n_kept(),
        "was over": was_over,
        "status": process.returncode,
        "said": (place / "said").read_text(errors="replace").splitlines()[-3:],
        "seconds until no process was left": gone,
        "left": family.living(),
        "folders left": len(list(Path("/tmp").glob(SCRATCH))),
    }
    again = started(command, place)
    again.wait()
    return told | {
        "status again": again.returncode,
        "said again": (place / "said").read_text(errors="replace").splitlines()[-1:],
        "folders left then": len(list(Path("/tmp").glob(SCRATCH))),
    }


def run(
    folder: Path, count: int, seed: int, names: list[str], signals: Sequence[str]
) -> Iterator[dict[str, Any]]:
    chosen = {n: c for n, c in commands(make_stores(folder, 4, 1, (800, 24))).items() if n in names}
    whole, units = {}, {}
    for name, command in chosen.items():
        place = folder / f"{name}-whole"
        assert started(command, place).wait() == 0, (place / "said").read_text()
        whole[name], units[name] = command.result(place), len(list(place.glob(command.kept)))
    for number in range(count):
        name = list(chosen)[number % len(chosen)]
        rng = random.Random(f"{seed} {number}")
        place = folder / f"{name}-{seed}-{number}"
        how = signal.Signals[signals[number // len(chosen) % len(signals)]]
        told = stop(name, chosen[name], place, how, rng.randrange(max(units[name] - 2, 1)))
        is_equal = not told["status again"] and chosen[name].result(place) == whole[name]
        yield told | {"equal": is_equal, "of": units[name]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=9)
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=SIGNALS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("names", nargs="*", default=["compare", "extract", "reproduce"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="repalign-stopped-") as scratch:
        folder = given.directory or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for told in run(folder, given.count, given.seed, given.names, given.signals):
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
