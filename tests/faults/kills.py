"""Commands killed at a system call, then run again: what is left, and what comes of it.

With ``strace`` the kill comes at the n-th call of a kind (write, rename, fsync, …), be it of
Python or of HDF5, as counted in a run that is not disturbed; without it, at a random moment.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import numpy as np

from repalign.engine.cache import SUFFIX, Cache
from repalign.store.index import RowIndex
from repalign.store.reader import open_store, verify_store
from repalign.store.writer import StoreWriter
from tests.faults.counts import Counts, Outcome
from tests.faults.forks import Ended, Limits, forked, import_all
from tests.faults.lines import make_files, run_apart
from tests.faults.stages import CHEAP, MODEL, RECORDED, Stage, long_stages, stages
from tests.shards import SmallShards

CALLS = (
    "openat", "write", "pwrite64", "rename", "unlink", "unlinkat", "rmdir", "mkdir", "fsync",
    "ftruncate", "flock", "close",
)  # fmt: skip
# What changes files, where most kills come.
CHANGES = ("write", "pwrite64", "rename", "unlink", "fsync", "ftruncate", "mkdir")
# What a command says that lost one of its processes.
TOLD = "a worker process ended before its work was done"
# What one says that is not to replace what it finished before it was killed.
DONE = "already exists"
# A run makes a few calls more or less than another, so that a kill may come too late.
MOST_TRIES = 5
NOT_KILLED = "ended before it was killed"
OLD = b"what was there before\n"


def kill_commands(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Kill commands, look at what is left, run them again, and compare with one that was not."""
    return _kill_all("kills", stages(), folder, count, seed)


def kill_long_commands(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """The same of the commands that keep finished work and go on from it."""
    return _kill_all("stops", long_stages(), folder, count, seed)


def _kill_all(name: str, chosen: Sequence[Stage], folder: Path, count: int, seed: int) -> Counts:
    import_all()
    counts = Counts(name)
    files = folder / "files"
    files.mkdir()
    make_files(files)
    (files / "pipe").unlink()
    lines = (MODEL.parents[1].parent / "data" / "shakespeare.txt").read_text().splitlines()
    (files / "texts.txt").write_text("\n".join([line for line in lines if line][:24]))
    given = ["extract", str(MODEL), "--data", "texts.txt", "--shard-samples", "4", "-o", "shards"]
    with _copied(files) as place:
        assert run_apart([*given, "--offline"], place).status == 0
        assert run_apart(["compare", "a.h5", "b.h5", *CHEAP, "-o", RECORDED], place).status == 0
        shutil.copytree(place / "shards", files / "shards")
        shutil.copy(place / RECORDED, files)
    turns = [each for each in chosen for _ in range(each.share)]
    for number in range(count):
        stage = turns[number % len(turns)]
        if "whole" not in stage.found:
            _undisturbed(stage, files)
        rng = random.Random(f"{name} {seed} {number}")
        for _ in range(MOST_TRIES):
            with _copied(files) as place:
                outcome, why = _killed(stage, place, rng)
            if why != NOT_KILLED:
                break
        if why == NOT_KILLED:
            outcome = "refused"  # counted apart: nothing was killed
        counts.add(outcome, f"{stage.name}, kill {number} of seed {seed}: {why}")
    return counts


def _undisturbed(stage: Stage, files: Path) -> None:
    """Learn what a stage writes, and which calls it makes on the way."""
    with _copied(files) as place:
        ended = _run(stage, place)
        assert ended.status == 0, f"{stage.name}: {ended.said[-800:]}"
        stage.found["whole"] = [_content(stage, place / name) for name in stage.outputs]
        stage.found["seconds"] = ended.seconds
        stage.found["names"] = _visible(place)
    if shutil.which("strace"):
        with _copied(files) as place:
            log = place.parent / "calls"
            _run(stage, place, _tracer("-o", str(log), "-e", f"trace={','.join(CALLS)}"))
            calls = Counter(
                (found[1], found[2])
                for line in log.read_text(errors="replace").splitlines()
                if (found := re.match(r"(\d+) +(\w+)\(", line))
            )
        most: dict[str, int] = {}
        for (_, name), times in calls.items():
            most[name] = max(most.get(name, 0), times)
        stage.found["calls"] = most


def _killed(stage: Stage, place: Path, rng: random.Random) -> tuple[Outcome, str]:
    """Kill one run, check what is left, and run again."""
    is_old = stage.old and rng.random() < 0.5
    if is_old:
        (place / stage.outputs[0]).write_bytes(OLD)
    before = _inputs(place, stage)
    when, ended = _kill(stage, place, rng)
    is_told = stage.workers and ended.status == 1 and TOLD in ended.said
    if ended.status not in (-signal.SIGKILL, 0) and not is_told:
        return "traceback", f"{when}: status {ended.status}: {ended.said[-300:]}"
    if _inputs(place, stage) != before:
        return "wrong", f"{when}: an input was changed"
    for name, whole in zip(stage.outputs, stage.found["whole"], strict=True):
        path = place / name
        if is_old and path.is_file() and path.read_bytes() == OLD:
            continue
        if is_old and not path.exists():
            return "wrong", f"{when}: {name} is gone"
        if _appeared(stage, path) and _content(stage, path) != whole:
            return "wrong", f"{when}: {name} is not whole"
    if damaged := _unsound_units(place):
        return "wrong", f"{when}: the cache holds {damaged}"
    is_whole = all(_appeared(stage, place / name) for name in stage.outputs)
    store = place / stage.outputs[0]
    is_begun = stage.is_store and not _appeared(stage, store)
    if is_begun and (lost := _unsound_shards(store)):
        return "wrong", f"{when}: {lost}"
    if "maps" in stage.line:  # whole ones are never replaced
        shutil.rmtree(place / "maps", ignore_errors=True)
    again = _run(stage, place)
    is_done = is_whole and again.status == 1 and DONE in again.said
    if again.is_hung or (again.status and not is_done):
        return "traceback", f"{when}: again: {again.status} {again.said[-300:]}"
    found = [_content(stage, place / name) for name in stage.outputs]
    if found != stage.found["whole"]:
        return "wrong", f"{when}: other rows"
    extra = _visible(place) ^ stage.found["names"]
    if extra:
        return "wrong", f"{when}: left {sorted(extra)}"
    return "equal", "" if ended.status else NOT_KILLED


def _kill(stage: Stage, place: Path, rng: random.Random) -> tuple[str, Ended]:
    calls = stage.found.get("calls")
    if not calls:
        seconds = rng.uniform(0, stage.found["seconds"])
        limits = Limits(seconds=seconds)
        return f"after {seconds:.3f} s", _run(stage, place, limits=limits)
    usual = [name for name in CHANGES if name in calls]
    name = rng.choice(usual if usual and rng.random() < 0.8 else sorted(calls))
    number = rng.randint(1, calls[name])
    inject = f"inject={name}:signal=SIGKILL:when={number}"
    tracer = _tracer("-o", os.devnull, "-e", f"trace={name}", "-e", inject)
    return f"at {name} {number} of {calls[name]}", _run(stage, place, tracer)


def _run(
    stage: Stage,
    place: Path,
    attach: Callable[[int], Callable[[], object]] | None = None,
    limits: Limits | None = None,
) -> Ended:
    if stage.line:
        return run_apart(
            list(stage.line), place, prepare=stage.prepare, attach=attach, limits=limits
        )
    path = place / stage.outputs[0]
    return forked(lambda: _write(path), place, attach=attach, limits=limits)


def _write(path: Path) -> None:
    """Begin a store of five shards, or continue it."""
    options = SmallShards(shard_rows=40)
    with StoreWriter(
        path, resume=True, spec={"seed": 1}, views={"a": 20, "b": 3}, options=options
    ) as to:
        for start in range(to.n_rows, 190, 30):
            number = np.arange(start, min(190, start + 30))
            views = {"a": np.sin(number[:, None] * np.arange(20.0)), "b": np.cos([number] * 3).T}
            to.append(views, RowIndex(number, number % 7, ids=np.array([f"r{i}" for i in number])))


def _tracer(*arguments: str) -> Callable[[int], Callable[[], object]]:
    def attach(child: int) -> Callable[[], object]:
        command = ["strace", "-f", "-qq", *arguments, "-p", str(child)]
        tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while "TracerPid:\t0\n" in Path(f"/proc/{child}/status").read_text():
            assert time.monotonic() < until, "strace does not attach"
            time.sleep(0.002)
        return tracer.wait

    return attach


def _appeared(stage: Stage, path: Path) -> bool:
    # a folder of shards has its name from the start, and is whole when it has a manifest
    if stage.is_folder:
        return path.exists()
    return path.is_file() or (stage.is_store and (path / "manifest.json").exists())


def _content(stage: Stage, path: Path) -> str:
    if stage.is_store:
        assert verify_store(path).problems == ()
        with open_store(path) as store:
            return store.fingerprint
    files = sorted(path.glob("[!.]*")) if path.is_dir() else [path]
    return sha256(b"".join(each.read_bytes() for each in files)).hexdigest()


def _unsound_shards(path: Path) -> str:
    """Say which committed shards of an unfinished store are not sound."""
    parts = path.with_name(path.name + ".parts") if path.suffix == ".h5" else path
    if not any(parts.glob("part-*.h5")):
        return ""
    return "; ".join(verify_store(parts, allow_incomplete=True).problems)


def _unsound_units(place: Path) -> str:
    """Say which finished units are kept and cannot be read."""
    unsound = []
    for folder in (place.parent / "home" / ".cache" / "repalign", place / "again" / "cases"):
        keys = [path.stem for path in folder.glob(f"*{SUFFIX}")]
        unsound += [key for key in keys if Cache(folder, 2**30).get(key) is None]
    return ", ".join(unsound)


def _visible(place: Path) -> set[str]:
    """Return what lies in a folder, but for what a killed command may leave."""
    names = {path.relative_to(place) for path in place.rglob("*")}
    return {str(name) for name in names if not any(part[0] == "." for part in name.parts)}


def _inputs(place: Path, stage: Stage) -> dict[str, str]:
    words = {*stage.line, "a.h5", "b.h5"} - {*stage.outputs, "folds.jsonl"}
    files = [path for word in words if word for path in _files(place / word)]
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files}


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir() and path.name == "shards":
        yield from path.iterdir()
    elif path.is_file() and not path.is_relative_to(MODEL):
        yield path


@contextmanager
def _copied(files: Path) -> Iterator[Path]:
    around = files.with_name("kills")
    place = around / "copy"
    for each in (around, around / "home", around / "tmp"):
        each.mkdir()
    shutil.copytree(files, place, symlinks=True, ignore=shutil.ignore_patterns("socket"))
    try:
        yield place
    finally:
        shutil.rmtree(around)
