"""`import repalign` and `repalign --help` stay fast: no heavy library is loaded by them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HEAVY = ("torch", "transformers", "timm", "sklearn", "h5py", "scipy.stats", "scipy.optimize")
REPORT = f"; import sys; print([name for name in {HEAVY} if name in sys.modules])"
HELP = (
    "from typer.testing import CliRunner; from repalign.cli.app import app; "
    "result = CliRunner().invoke(app, {arguments}); assert result.exit_code == 0, result.output"
)


def heavy_after(code: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", code + REPORT], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return eval(ran.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize(
    "code",
    [
        "import repalign",
        "import repalign.cli.app",
        HELP.format(arguments=["--help"]),
        HELP.format(arguments=["--version"]),
    ],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    assert heavy_after(code) == []


def test_every_command_shows_its_help_without_anything_heavy() -> None:
    code = (
        "from typer.testing import CliRunner; from repalign.cli.app import app; "
        "from repalign.cli.reference import commands\n"
        "for words, _ in commands():\n"
        "    result = CliRunner().invoke(app, [*words.split()[1:], '--help'])\n"
        "    assert result.exit_code == 0, words\n"
        "pass"
    )
    assert heavy_after(code + "\npass") == []


def test_a_comparison_without_ica_loads_no_torch(tmp_path: Path) -> None:
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).random((60, 3)))
    arguments = ["compare", *(str(tmp_path / f"{name}.npy") for name in ("a", "b"))]
    loaded = heavy_after(HELP.format(arguments=[*arguments, "--maps", "permutation,rigid,linear"]))
    assert not {"torch", "transformers", "sklearn", "scipy.stats"} & set(loaded)
    without_matching = heavy_after(HELP.format(arguments=[*arguments, "--maps", "rigid,linear"]))
    assert "scipy.optimize" not in without_matching
    with_ica = heavy_after(HELP.format(arguments=[*arguments, "--maps", "ica"]))
    assert "torch" in with_ica


def test_the_check_can_fail() -> None:
    assert heavy_after("import repalign, h5py") == ["h5py"]
    assert heavy_after("import repalign; repalign.open_store") != []
