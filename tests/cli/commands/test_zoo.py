import csv
import io
import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from repalign.cli.app import RepalignGroup
from repalign.cli.commands import zoo
from repalign.zoo.shipped import WEIGHTS_FOLDER, shipped_names

app = typer.Typer(cls=RepalignGroup)
app.add_typer(zoo.app, name="zoo")


def run(*arguments: str):
    return CliRunner().invoke(app, ["zoo", *arguments])


def test_list_names_every_shipped_model_with_its_figures() -> None:
    rows = list(csv.DictReader(io.StringIO(run("list").stdout)))
    assert tuple(row["model"] for row in rows) == shipped_names()
    assert "held-out accuracy 0.9889" in next(
        row["figures"] for row in rows if row["model"] == "resnet-seed0"
    )
    assert "images" not in "".join(row["figures"] for row in rows)
    table = run("list", "-f", "table").stdout
    assert all(name in table for name in shipped_names())
    assert json.loads(run("list", "-f", "json").stdout)[0]["model"] == shipped_names()[0]


def test_path_is_what_other_commands_take() -> None:
    made = run("path", "resnet-seed1")
    assert made.stdout == f"{WEIGHTS_FOLDER / 'resnet-seed1'}\n"
    failed = run("path", "resnet-seed9")
    assert failed.exit_code == 1
    assert "'resnet-seed9'" in failed.stderr


def test_train_writes_a_model_and_tells_its_figures(tmp_path: Path) -> None:
    target = tmp_path / "new" / "mae-untrained-seed4"
    made = run("train", "mae-untrained", "--seed", "4", "-o", str(target))
    assert made.exit_code == 0, made.stderr
    row = next(csv.DictReader(io.StringIO(made.stdout)))
    assert (row["recipe"], row["seed"]) == ("mae-untrained", "4")
    assert {path.name for path in target.iterdir()} == {
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
        "training.json",
    }


def test_train_refuses_an_unknown_recipe(tmp_path: Path) -> None:
    failed = run("train", "mae-wid", "-o", str(tmp_path / "x"))
    assert failed.exit_code == 1
    assert "mae-wide" in failed.stderr
