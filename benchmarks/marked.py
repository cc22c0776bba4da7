"""Calls that leave a mark each time they are begun and done, and what marks tell."""

import importlib
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from repalign.engine.engine import Engine
from repalign.engine.machine import Machine


@dataclass(frozen=True, eq=False)
class Marked:
    """A function that writes who began a call, and that it was done."""

    function: Callable[..., Any]
    key: str
    folder: Path

    def __call__(self, machine: Machine, *arguments: Any) -> Any:
        mark = self.folder / f"{self.key}~{os.getpid()}~{time.monotonic_ns()}"
        mark.touch()
        # loaded where they are used, and files too: not of the embeddings
        importlib.import_module("scipy.optimize")
        importlib.import_module("scipy.spatial.distance")
        before = _bytes_read()
        result = self.function(machine, *arguments)
        mark.write_text(f"{_bytes_read() - before} {_most_memory()}")
        mark.rename(mark.with_name(mark.name + "~done"))
        return result


def marking(engine: Engine, folder: Path) -> Engine:
    """Return an engine of other processes whose calls leave marks in a folder."""
    run = engine.run

    def run_marked(stage: str, calls: Any, machine: Machine) -> list[Any]:
        marked = [replace(call, function=Marked(call.function, call.key, folder)) for call in calls]
        return run(stage, marked, machine)

    engine.run = run_marked  # type: ignore[method-assign]
    return engine


@dataclass(frozen=True)
class Counts:
    """How many calls there were, how many were begun twice, and how many done twice."""

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


def latest_process(folder: Path) -> int | None:
    """Return the process that began a call last and has not done it."""
    open_marks = [name for path in folder.iterdir() if len(name := path.name.split("~")) == 3]
    return int(max(open_marks, key=lambda name: int(name[2]))[1]) if open_marks else None
