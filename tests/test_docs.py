"""The documentation cannot drift: the reference is the help, every command is explained."""

from pathlib import Path

import pytest

from repalign.cli.reference import commands, reference

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
