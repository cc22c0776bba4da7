"""The documentation cannot drift: the reference is the help, every command is explained."""

import re
from pathlib import Path

import pytest

from repalign.cli.reference import commands, reference
from repalign.core.measures import CHANGES, MEASURES, Measure

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
COMMANDS = list(commands())


def test_the_reference_is_the_help_of_the_commands() -> None:
    fresh = reference()
    written = (ROOT / "docs" / "cli.md").read_text()
    assert written.strip() == fresh.strip(), "run: python -m repalign.cli.reference > docs/cli.md"


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=[words for words, _ in COMMANDS])
def test_every_command_and_parameter_is_explained(words: str, command) -> None:
    assert command.help, words
    is_group = bool(getattr(command, "commands", None))
    if not is_group:
        assert "Example: repalign" in " ".join(command.help.split()), f"{words} has no example"
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{words}: {parameter.name} has no help"


def measure_row(measure: Measure) -> str:
    """The row of a measure in the table of its page."""
    name, what = measure.name, measure.means
    if measure.size is not None:
        name, what = f"{name}-K", f"{what}; K is {measure.size} unless said"
    cells = []
    for change in CHANGES:
        sides = change in measure.source, change in measure.target_changes
        cells.append({(1, 1): "both", (1, 0): "source", (0, 1): "target", (0, 0): ""}[sides])
    return f"| `{name}` | {measure.heading} | {what} | {' | '.join(cells)} |"


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_every_measure_has_its_row_and_its_formula(measure: Measure) -> None:
    assert measure_row(measure) in (ROOT / "docs" / "measures.md").read_text()
    name = measure.name if measure.size is None else f"{measure.name}-K"
    assert f"| `{name}` |" in (ROOT / "docs" / "maths.md").read_text()


@pytest.mark.parametrize("page", ["docs/maths.md", "CONTRIBUTING.md"])
def test_modules_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:core|tests|comparison|engine|store|models)/[\w/]+\.py)`", text))
    assert {
        n for n in named if not ((ROOT / n).exists() or (ROOT / "repalign" / n).exists())
    } == set()


PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lists_stand_apart_from_the_text_before_them(page: Path) -> None:
    """The site makes one paragraph of a text and a list that follows without an empty line."""
    without_code = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert re.findall(r"^(?![-*] |[#|>\s]|\d+\. ).+\n[-*] .*", without_code, flags=re.M) == []
