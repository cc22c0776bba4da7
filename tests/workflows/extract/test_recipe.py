"""The page on a model of one's own runs as it is written."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from repalign.cli.app import app

PAGE = Path(__file__).parents[3] / "docs" / "own-model.md"


def test_the_recipe_from_a_state_dict_to_the_error_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text().split("## From a state dict")[1]
    classes, load, extract, check = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
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
    (command,) = re.findall(r"^repalign (compare .*)$", text, re.MULTILINE)
    ran = CliRunner().invoke(app, [*command.split(), "--quick", "--format", "csv"])
    assert ran.exit_code == 0, ran.output
    assert "rigid" in ran.stdout
