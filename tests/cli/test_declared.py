"""Options of a command that are made from a settings class."""

import re
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
import typer
from typer.testing import CliRunner

from repalign.cli.declared import Given, options, presets, standing_for
from repalign.options import Settings, option


@dataclass(frozen=True)
class Inner(Settings):
    solver: Literal["fast", "exact"] = option("fast", "How to solve.", flag="inner-solver")


@dataclass(frozen=True)
class Outer(Settings):
    share: float = option(0.2, "Share held out.", least=0, below=1)
    names: tuple[str, ...] = option(("a",), "Names.", choices=("a", "b"))
    tops: tuple[float, ...] = option((0.1,), "Tops.")
    layers: tuple[str, ...] = option((), "Layers.", flag="layer", repeat=True, absent="final")
    with_ids: bool = option(True, "Keep no ids.", flag="no-ids")
    both: bool = option(False, "Both directions.")
    passes: int | None = option(None, "Passes.", least=1, absent="400")
    hidden: int = option(3, "Not on the line.", flag="")
    inner: Inner = field(default_factory=Inner)


app = typer.Typer()


@app.command()
@standing_for(given=options(Outer))
def work(
    context: typer.Context, where: Annotated[str, typer.Argument(help="Where.")], given: Given
) -> None:
    """Work."""
    typer.echo(f"{where} {sorted(given)} {given.settings(Outer())!r}")


def run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_what_is_not_given_keeps_its_default() -> None:
    assert run("work", "x").strip() == f"x [] {Outer()!r}"


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (["--share", "0.5"], Outer(share=0.5)),
        (["--names", "a, b"], Outer(names=("a", "b"))),
        (["--tops", "0.1,0.5"], Outer(tops=(0.1, 0.5))),
        (["--layer", "1", "--layer", "2"], Outer(layers=("1", "2"))),
        (["--no-ids"], Outer(with_ids=False)),
        (["--both"], Outer(both=True)),
        (["--passes", "7"], Outer(passes=7)),
        (["--inner-solver", "exact"], Outer(inner=Inner("exact"))),
    ],
)
def test_what_is_given_reaches_its_field(words: list[str], changed: Outer) -> None:
    assert repr(changed) in run("work", "x", *words)


def test_the_help_shows_every_option_with_its_default_and_choices() -> None:
    shown = run("work", "--help")
    for text in (
        "Share held out. [default: 0.2]",
        "Names. Some of: a, b. [default: a]",
        "Layers. [default: (final)]",
        "Passes. [default: (400)]",
        "How to solve. [default: fast]",
        "fast|exact",
    ):
        assert text in shown, shown
    assert "--hidden" not in shown


def test_wrong_usage_of_a_declared_option_is_exit_code_two() -> None:
    for words in (["--inner-solver", "none"], ["--passes", "0"], ["--tops", "a"]):
        assert CliRunner().invoke(app, ["work", "x", *words]).exit_code == 2


PRESETS = {"fast": Outer(share=0), "full": Outer(both=True)}
HELP = {"fast": "Little.", "full": "All."}


@app.command()
@standing_for(preset=presets(PRESETS, HELP, Outer(), panel="Presets"), given=options(Outer))
def choose(context: typer.Context, *, preset: Outer, given: Given) -> None:
    """Choose."""
    typer.echo(repr(given.settings(preset)))


def test_a_preset_is_a_flag_and_what_is_given_stands_over_it() -> None:
    assert run("choose").strip() == repr(Outer())
    assert run("choose", "--full").strip() == repr(Outer(both=True))
    assert run("choose", "--fast", "--both").strip() == repr(Outer(share=0, both=True))
    assert "All." in run("choose", "--help")
    both = CliRunner().invoke(app, ["choose", "--fast", "--full"])
    assert both.exit_code == 2
    assert re.search("--fast.* --full", both.stderr)


def test_a_value_outside_its_choices_is_wrong_usage_that_names_the_option() -> None:
    refused = CliRunner().invoke(app, ["work", "x", "--names", "a,c"], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert "--names" in refused.stderr
    assert "'c'" in refused.stderr
