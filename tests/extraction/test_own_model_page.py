"""The page on a model of one's own runs as it is written, by both of its ways."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import repalign
from repalign.cli.app import app

pytestmark = pytest.mark.docs

PAGE = Path(__file__).parents[2] / "docs" / "own-model.md"


def test_the_recipe_from_a_state_dict_to_the_error_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text().split("## From a state dict")[1]
    classes, load, extract, check, functions = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    rng = np.random.default_rng(0)
    np.save("images.npy", rng.integers(0, 256, (240, 32, 32, 3), dtype=np.uint8))
    scope: dict[str, Any] = {}
    exec(classes, scope)
    for name, blocks in (("resnet20.th", 3), ("resnet32.th", 5)):
        torch.manual_seed(blocks)
        state = scope["ResNet"](blocks).state_dict()
        torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}}, name)
    for code in (load, extract, check):
        exec(code, scope)
    Path("cifar.py").write_text(classes + load + functions)
    commands = [line.split() for line in re.findall(r"^repalign (.*)$", text, re.MULTILINE)]
    assert [words[0] for words in commands] == ["compare", "extract", "extract", "compare"]
    shown = []
    for words in commands:
        quick = ["--quick", "--format", "csv"] if words[0] == "compare" else []
        ran = CliRunner().invoke(app, [*words, *quick])
        assert ran.exit_code == 0, ran.output
        shown.append(ran.stdout)
    assert "rigid" in shown[0]
    assert "rigid" in shown[3]
    for model, by_name in (("resnet20.h5", "a.h5"), ("resnet32.h5", "b.h5")):
        with repalign.open_store(model) as ours, repalign.open_store(by_name) as theirs:
            rows = ours.view("layer3").read(0, 240), theirs.view("layer3").read(0, 240)
        assert np.abs(rows[0] - rows[1]).max() < 1e-5 * np.abs(rows[0]).max()
