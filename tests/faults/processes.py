"""Random command lines as programs of their own, beside the same lines in forked children.

A forked child leaves before the interpreter ends, so that a crash at exit, of a thread or of a
library in C, is seen in a real process alone.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.faults.counts import Counts
from tests.faults.forks import SECONDS, Ended
from tests.faults.lines import (
    copied,
    described,
    drawn_lines,
    judged,
    run_apart,
)

ROOT = Path(__file__).parents[2]
# Starting takes seconds on a busy machine, where a forked child has everything already.
MOST_SECONDS = 4 * SECONDS


def compare_processes(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Run random lines both ways; the exit codes must agree, and both must be documented."""
    counts = Counts("processes")
    for line, _, _, files in drawn_lines("processes", folder, count, seed):
        with copied(files) as place:
            expected = run_apart(line, place)
        with copied(files) as place:
            ended = _program(line, place)
        outcome, why = judged(ended)
        if outcome in ("equal", "refused") and ended.status != expected.status:
            outcome, why = "wrong", f"status {ended.status}, forked {expected.status}"
        counts.add(outcome, f"{described(line)}: {why}")
    return counts


def _program(line: Sequence[str], place: Path) -> Ended:
    around = {
        "HOME": str(place.parent / "home"),
        "TMPDIR": str(place.parent / "tmp"),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-X", "faulthandler", "-m", "repalign", *line]
    try:
        ran = subprocess.run(
            [os.fsencode(word) for word in command],
            cwd=place,
            env={**os.environ, **around},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ended(0, True, MOST_SECONDS, 0, "", "")
    said = ran.stderr.decode(errors="backslashreplace")
    printed = ran.stdout.decode(errors="backslashreplace")
    return Ended(ran.returncode, False, 0.0, 0, printed, said)
