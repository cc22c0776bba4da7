"""Every command and every example of the README runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def console_commands() -> list[str]:
    lines = [line for block in fenced("console") for line in block.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ ")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with `repalign` on the path."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "repalign"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m repalign "$@"\n')
    command.chmod(0o755)
    return tmp_path


@pytest.mark.slow
def test_the_console_commands_run_in_order(folder: Path) -> None:
    environment = os.environ | {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    shell = shutil.which("bash")
    assert shell
    for command in console_commands():
        ran = subprocess.run(
            [shell, "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stderr}"
    assert (folder / "results.csv").read_text().startswith("source,target,")
    assert "<html" in (folder / "report.html").read_text()
    assert (folder / "a-in-space-of-b.h5").exists()


def test_the_python_example_runs(tmp_path: Path) -> None:
    for code in fenced("python"):
        ran = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert "held-out" in ran.stdout


def test_the_two_commands_of_the_readme_are_those_of_the_gate() -> None:
    shown = " ".join(fenced("sh"))
    for command in ("pip install . && repalign demo", "pip install -e '.[test]' && pytest"):
        assert command in shown
        for step in command.split(" && "):
            assert f"\n{step}\n" in CI, step


def test_every_link_of_the_readme_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
