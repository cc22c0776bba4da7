"""Gates as a user meets them: exit codes, lines on stderr, the result in spite of them."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from repalign.cli.app import app

CHEAP = ["--maps", "mean,rigid,linear", "--null", "0", "--halves", "0"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(0)
    hidden = rng.laplace(size=(200, 4))
    for name in "abc":
        turned = hidden @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
        np.save(tmp_path / f"{name}.npy", turned + 0.1 * rng.standard_normal((200, 4)))
    return [str(tmp_path / f"{name}.npy") for name in "abc"]


def run(*arguments: str):
    return CliRunner().invoke(app, ["compare", *arguments, *CHEAP])


def test_a_broken_gate_is_exit_code_3_after_the_result(files, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    bounds = ["--fail-above", "rigid=1e-9", "--fail-above", "linear=5"]
    printed = run(*files[:2], *bounds)
    assert printed.exit_code == 3
    assert printed.stdout == run(*files[:2]).stdout
    lines = [line for line in printed.stderr.splitlines() if not line.startswith("warning")]
    assert len(lines) == 2
    assert lines[0].startswith("gate: ")
    assert re.search(r"held-out rigid\b.* 0\.0", lines[0])
    assert "1 of 2 gates" in lines[1]
    assert run(*files[:2], *bounds, "-o", str(out)).exit_code == 3
    assert out.exists()


def test_gates_that_hold_say_so(files) -> None:
    held = run(*files[:2], "--fail-above", "rigid=5", "--fail-below", "linear=0")
    assert held.exit_code == 0
    assert re.search("2 gates.* held-out", held.stderr)
    fitted = run(*files[:2], "--fail-above", "rigid=5", "--split", "0")
    assert re.search("gate .* in-sample", fitted.stderr)


def test_a_measure_is_known_by_the_name_that_was_typed(files) -> None:
    measures = ["--measures", "mutual-knn,svcca-3", "--fail-below", "mutual-knn=0.99999"]
    broken = run(*files[:2], *measures, "--format", "matrix", "--show", "mutual-knn")
    assert broken.exit_code == 3
    assert "mutual-knn-10" in broken.stdout
    other = run(*files[:2], "--measures", "svcca-3", "--fail-below", "svcca=0")
    assert other.exit_code == 2


def test_the_same_files_keep_up_with_themselves(files, tmp_path: Path) -> None:
    for ending in ("json", "csv"):
        earlier = str(tmp_path / f"earlier.{ending}")
        assert run(*files, "-o", earlier).exit_code == 0
        again = run(*files, "--baseline", earlier)
        assert again.exit_code == 0, again.stderr
        assert "9 gates" in again.stderr
        both = run(*files, "--both", "--baseline", earlier)
        assert both.exit_code == 2
        fewer = run(*files[:2], "--baseline", earlier)
        assert (fewer.exit_code, fewer.stdout) == (2, "")
        against = run(*files[1:], "--against", files[0], "--baseline", earlier)
        assert against.exit_code == 2
    noise = np.random.default_rng(1).standard_normal((200, 4))
    np.save(files[2], np.load(files[2]) + noise)
    worse = run(*files, "--baseline", earlier, "--tolerance", "0.01")
    assert worse.exit_code == 3
    assert "baseline" in worse.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--fail-above", "ica=1"], "'ica'"),
        (["--fail-above", "rigid"], "'rigid'"),
        (["--tolerance", "1"], "--baseline"),
        (["--baseline", "none.json"], "none.json"),
    ],
)
def test_wrong_gates_are_wrong_usage(files, words: list[str], told: str) -> None:
    refused = run(*files[:2], *words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert told in " ".join(refused.stderr.replace("│", "").split())
