"""What a command was given to read is never written, under whatever name."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, get_args

import h5py
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from repalign.cli.app import app
from repalign.cli.commands.reproduce import reproduce
from repalign.cli.inputs import NAMED, WRITTEN, marks_of, protected
from repalign.files import writing
from repalign.store import write_store
from repalign.store.directory import shard_name

SHARD = shard_name(0)
CHEAP = ["--null", "0", "--rotations", "0", "--halves", "0", "--maps", "mean,rigid"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name in ("p", "n"):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((60, 3)))
    assert run("store", "import", tmp_path / "p.npy", tmp_path / "p.h5").exit_code == 0
    assert run("store", "import", tmp_path / "n.npy", tmp_path / "n.h5").exit_code == 0
    made = run("compare", *stores(tmp_path), *CHEAP, "-o", tmp_path / "res.json")
    assert made.exit_code == 0, made.stderr
    saved = run("compare", *stores(tmp_path), *CHEAP, "--save-maps", tmp_path / "maps")
    assert saved.exit_code == 0, saved.stderr
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = rng.standard_normal((60, 3))
    return tmp_path


def stores(folder: Path) -> list[Path]:
    return [folder / "p.h5", folder / "n.h5"]


def run(*arguments: Any):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.mark.parametrize(
    ("line", "precious"),
    [
        (["report", "res.json", "-o", "res.json"], "res.json"),
        (["compare", "p.h5", "n.h5", *CHEAP, "-f", "csv", "-o", "n.h5"], "n.h5"),
        (["compare", "p.h5", "n.h5", *CHEAP, "-f", "csv", "-o", "link.h5"], "n.h5"),
        (["compare", "p.h5::p", "--against", "n.h5", *CHEAP, "-f", "csv", "-o", "n.h5"], "n.h5"),
        (["compare", "p.h5", "n.h5", *CHEAP, "--plot", "p.png"], "p.h5"),
        (["store", "info", "p.h5", "-f", "json", "-o", "p.h5"], "p.h5"),
        (["store", "export", "p.npy", "p.npy", "--overwrite"], "p.npy"),
        (["store", "export", "p.h5", "n.npy", "--overwrite", "--as", "npz"], "p.h5"),
        (["apply", "maps/01-rigid.safetensors", "p.h5", "-o", "p.h5", "--overwrite"], "p.h5"),
        (["apply", "maps/01-rigid.safetensors", "p.h5", "-o", "p2.h5", "--overwrite"], "p.h5"),
        (["store", "import", "x.h5", "x.h5", "--overwrite"], "x.h5"),
        (["store", "pack", "shards", f"shards/{SHARD}", "--overwrite"], f"shards/{SHARD}"),
    ],
)
def test_an_input_survives(folder: Path, monkeypatch, line: list[str], precious: str) -> None:
    monkeypatch.chdir(folder)
    Path("link.h5").symlink_to("n.h5")
    Path("p.png").hardlink_to("p.h5")
    Path("p2.h5").symlink_to("p.h5")
    write_store("shards", np.eye(3))
    before = Path(precious).read_bytes()
    ran = run(*line)
    assert Path(precious).read_bytes() == before
    if line[-1] != "npz":  # that one is allowed: another file
        assert ran.exit_code == 1, ran.output
        assert " input" in ran.stderr
        assert len(ran.stderr.strip().splitlines()) <= 2


def test_a_store_of_shards_that_is_read_survives(folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    write_store("shards", np.load("p.npy"))
    before = {path.name: path.read_bytes() for path in Path("shards").iterdir()}
    for out in ("shards", "."):
        ran = run("apply", "maps/01-rigid.safetensors", "shards", "-o", out, "--overwrite")
        assert ran.exit_code == 1, ran.output
        assert " input" in ran.stderr
    assert {path.name: path.read_bytes() for path in Path("shards").iterdir()} == before


def test_the_result_of_an_earlier_run_may_be_replaced(folder: Path) -> None:
    again = run("compare", *stores(folder), *CHEAP, "-o", folder / "res.json")
    assert again.exit_code == 0, again.stderr


@pytest.mark.parametrize("option", ["--ids", "--groups"])
def test_lists_that_are_no_text_or_no_file_are_refused(folder: Path, option: str) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "noise").write_bytes(b"\xff\x00\xfe")
    for name, message in (("pipe", "a pipe"), ("noise", "UTF-8")):
        ran = run("compare", folder / "p.npy", folder / "n.npy", option, folder / name)
        assert ran.exit_code == 1
        assert message in ran.stderr


def test_a_dash_is_standard_output(folder: Path) -> None:
    printed = run("compare", *stores(folder), *CHEAP, "-f", "json", "-o", "-")
    assert json.loads(printed.stdout)["format"] == "repalign-compare"
    page = run("report", folder / "res.json", "-o", "-")
    assert page.stdout.startswith("<!doctype html>")
    assert not Path("-").exists()
    exported = run("store", "export", folder / "p.h5", "-", "--as", "npy")
    assert exported.stdout_bytes.startswith(b"\x93NUMPY")


def test_every_parameter_that_names_an_output_is_marked_as_written() -> None:
    """One that is not would refuse to replace its own file of an earlier run."""
    found = []
    for name, command in _commands(app):
        for parameter in _parameters(command):
            annotation = parameter.annotation
            declared = [getattr(each, "param_decls", None) or () for each in get_args(annotation)]
            flags = {flag for each in declared for flag in each}
            if flags & {"-o", "--output"} or parameter.name in ("out", "plot", "save_maps"):
                found.append(name)
                assert WRITTEN in getattr(annotation, "__metadata__", ()), (name, parameter.name)
    assert len(found) > 10


def test_a_name_from_a_list_is_no_file_although_a_folder_is_called_so(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def work(name: Annotated[str, NAMED], to: Annotated[Path, WRITTEN]) -> None:
        to.mkdir(exist_ok=True)
        with writing(to / "table.csv") as place:
            place.write_text(name)

    for _ in range(2):
        protected(work)(name="layers", to=Path("layers"))
    assert Path("layers/table.csv").read_text() == "layers"
    name = next(each for each in _parameters(reproduce) if each.name == "name")
    assert NAMED in marks_of(name.annotation)


def _commands(application: typer.Typer) -> list[tuple[str, Any]]:
    own = [(each.name or "", each.callback) for each in application.registered_commands]
    for group in application.registered_groups:
        own += _commands(group.typer_instance)
    return own


def _parameters(command: Any) -> list[Any]:
    import inspect

    return list(inspect.signature(command, eval_str=True).parameters.values())


def test_texts_that_name_files_in_some_other_way_are_protected_too(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")

    def command(
        given: str | None = None, to: Annotated[Path | None, typer.Option(), WRITTEN] = None
    ) -> None:
        assert to is not None
        with writing(to) as whole:
            whole.write_text("new")

    for text in (f"{tmp_path}/x::view", f"mae:{tmp_path}/x", f"A={tmp_path}/x"):
        with pytest.raises(Exception, match="the input"):
            protected(command)(given=text, to=tmp_path / "x")
    protected(command)(given="a\0b", to=tmp_path / "x")
