"""`python -m tests.mutants` makes known mistakes in a copy of the package; a test must fail."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parents[2]
FOLDERS = ("repalign", "tests", "docs", "benchmarks")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "mkdocs.yml")
KILLED, SURVIVED, SLOW = "killed", "survived", "killed by the time limit"
# Exit codes of pytest: all passed, some failed, collection failed.
OUTCOMES = {0: SURVIVED, 1: KILLED, 2: KILLED}
MINUTES = 30


@dataclass(frozen=True)
class Mutant:
    """One mistake: in ``file``, ``old`` becomes ``new``; ``tests`` could find it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def read_mutants() -> list[Mutant]:
    """Return all mutants, in the order of their file."""
    entries = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text("utf-8"))["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def count(mutant: Mutant) -> int:
    return (ROOT / mutant.file).read_text("utf-8").count(mutant.old)


@contextmanager
def mutated(mutant: Mutant, checkout: Path) -> Iterator[None]:
    """Make the mistake in a copy, and undo it."""
    path = checkout / mutant.file
    original = path.read_text("utf-8")
    path.write_text(original.replace(mutant.old, mutant.new), "utf-8")
    try:
        yield
    finally:
        path.write_text(original, "utf-8")


def run_tests(mutant: Mutant, checkout: Path, markers: list[str]) -> str:
    """Run the tests of a mutant until one fails."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "PYTHONDONTWRITEBYTECODE": "1",  # times of files are too coarse to tell a mutant apart
        "OMP_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory() as scratch:
        options = ["-x", "-q", "-n0", *markers, "-p", "no:cacheprovider", f"--basetemp={scratch}/t"]
        command = [sys.executable, "-m", "pytest", *options, *mutant.tests]
        try:
            run = subprocess.run(
                command,
                cwd=checkout,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60 * MINUTES,
            )
        except subprocess.TimeoutExpired:
            return SLOW
    if run.returncode not in OUTCOMES:
        raise SystemExit(f"{mutant.name}: pytest did not run:\n{run.stdout}{run.stderr}")
    return OUTCOMES[run.returncode]


def main() -> int:
    """Try the mutants and print what becomes of each; 1 where one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", type=int, metavar="N", help="a single mutant, by its number")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tried at once")
    parser.add_argument(
        "--default", action="store_true", help="with the tests that a plain pytest runs alone"
    )
    arguments = parser.parse_args()
    mutants = list(enumerate(read_mutants(), start=1))
    stale = [f"{m.file}: {m.name}" for _, m in mutants if count(m) != 1]
    if stale:
        raise SystemExit("\n".join(["old text expected once: adapt mutants.toml", *stale]))
    if arguments.only is not None:
        mutants = mutants[arguments.only - 1 : arguments.only]
    markers = [] if arguments.default else ["-m", ""]
    with tempfile.TemporaryDirectory() as folder:
        free: Queue[Path] = Queue()
        for job in range(arguments.jobs):
            free.put(copy_checkout(Path(folder, str(job))))

        def attempt(mutant: Mutant) -> tuple[str, float]:
            checkout, started = free.get(), time.monotonic()
            try:
                with mutated(mutant, checkout):
                    return run_tests(mutant, checkout, markers), time.monotonic() - started
            finally:
                free.put(checkout)

        survivors = 0
        with ThreadPoolExecutor(arguments.jobs) as pool:
            outcomes = pool.map(attempt, [mutant for _, mutant in mutants])
            for (number, mutant), (outcome, seconds) in zip(mutants, outcomes, strict=True):
                survivors += outcome == SURVIVED
                print(f"{number:2d} {outcome:8s} {seconds:5.0f} s  {mutant.name}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants killed")
    return int(survivors > 0)


def copy_checkout(target: Path) -> Path:
    """Copy what tests read."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name)
    for name in FILES:
        shutil.copy2(ROOT / name, target)
    return target


if __name__ == "__main__":
    sys.exit(main())
