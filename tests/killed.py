"""Commands that are killed half way, and the results that they leave in a cache."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def start(words: list[str], cache: Path, folder: Path | None = None) -> "subprocess.Popen[str]":
    """Start a command in two processes, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "repalign", "--verbose", *words, "--workers", "2", "-f", "csv"],
        cwd=folder,
        env=os.environ | {"REPALIGN_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def results_in(cache: Path, kind: str = "") -> dict[str, int]:
    """Return results by name, each with the number of its file, which a new one would change."""
    return {path.name: path.stat().st_ino for path in cache.glob(f"{kind}*.result")}


def kill_after(process: "subprocess.Popen[str]", cache: Path, n: int, kind: str = "") -> None:
    """Kill a command and its workers once there are so many results."""
    while process.poll() is None and len(results_in(cache, kind)) < n:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
