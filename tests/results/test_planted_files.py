"""Python files in the current folder: no command and no process that it starts runs them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

# As the console script starts: the folder of the script is on the path, the current one is not.
CONSOLE = "import sys; del sys.path[0]; from repalign.__main__ import main; main()"
COMPARE = ["compare", "a.npy", "b.npy", "--quick", "--maps", "rigid", "--no-cache"]
PLANTED = ("numpy", "torch", "cloudpickle", "repalign", "multiprocessing", "pickle", "json")


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [[*COMPARE, "--workers", "2"], [*COMPARE, "--workers", "2", "--engine", "ray"], ["doctor"]],
    ids=["workers", "ray", "doctor"],
)
def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path, line: list[str]) -> None:
    if "ray" in line:
        pytest.importorskip("ray")
    marker = tmp_path / "ran"
    folder = tmp_path / "downloaded"
    folder.mkdir()
    for name in PLANTED:
        text = f"open({str(marker)!r}, 'a').write({name!r})\nraise ImportError\n"
        (folder / f"{name}.py").write_text(text)
    x = np.random.default_rng(0).laplace(size=(40, 3))
    np.save(folder / "a.npy", x)
    np.save(folder / "b.npy", x[:, ::-1])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    ended = subprocess.run(
        [sys.executable, "-c", CONSOLE, *line],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not marker.exists(), marker.read_text()
    assert ended.returncode == 0, ended.stderr
