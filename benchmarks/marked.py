"""Units of work that leave a mark each time they are begun and done, and what marks tell."""

import importlib
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repalign.workflows.machine import Machine


@dataclass(frozen=True, eq=False)
class Marked:
    """A unit that writes who began it, and that it was done."""

    unit: Any
    folder: Path

    @property
    def key(self) -> str:
        return self.unit.key

    @property
    def stage(self) -> str:
        return self.unit.stage

    def run(self, machine: Machine) -> Any:
        mark = self.folder / f"{self.key}~{os.getpid()}~{time.monotonic_ns()}"
        mark.touch()
        # loaded where they are used, and files too: not of the embeddings
        importlib.import_module("scipy.optimize")
        importlib.import_module("scipy.spatial.distance")
        before = _bytes_read()
        result = self.unit.run(machine)
        mark.write_text(f"{_bytes_read() - before} {_most_memory()}")
        mark.rename(mark.with_name(mark.name + "~done"))
        return result


class Marking:
    """Does units by another executor, marked."""

    def __init__(self, executor: Any, folder: Path) -> None:
        self._executor, self._folder = executor, folder

    def map(self, units: Sequence[Any], machine: Machine) -> list[Any]:
        return self._executor.map([Marked(unit, self._folder) for unit in units], machine)


@dataclass(frozen=True)
class Counts:
    """How many units there were, how many were begun twice, and how many done twice."""

    units: int
    begun: int
    done: int
    begun_again: int
    done_again: int


def count(folder: Path) -> Counts:
    """Read the marks."""
    names = [path.name.split("~") for path in folder.iterdir()]
    begun = Counter(name[0] for name in names)
    done = Counter(name[0] for name in names if len(name) == 4)
    return Counts(
        units=len(begun),
        begun=sum(begun.values()),
        done=sum(done.values()),
        begun_again=sum(n - 1 for n in begun.values()),
        done_again=sum(n - 1 for n in done.values()),
    )


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def _most_memory() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def measured(folder: Path) -> tuple[int, int]:
    """Return the bytes that units read, and the most memory of a process that did some."""
    texts = [path.read_text().split() for path in folder.iterdir() if path.name.endswith("~done")]
    return sum(int(text[0]) for text in texts), max(int(text[1]) for text in texts)


def latest_process(folder: Path) -> int | None:
    """Return the process that began a unit last and has not done it."""
    open_marks = [name for path in folder.iterdir() if len(name := path.name.split("~")) == 3]
    return int(max(open_marks, key=lambda name: int(name[2]))[1]) if open_marks else None
