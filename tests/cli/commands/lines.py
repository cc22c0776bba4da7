"""A command as its user types it, and the rows of the CSV that it prints."""

import csv
import io

from click.testing import Result
from typer.testing import CliRunner

from repalign.cli.app import app


def invoke(*words: str) -> Result:
    """Run a command, whatever becomes of it."""
    return CliRunner().invoke(app, words)


def printed(*words: str) -> str:
    """Run a command that must succeed, and return what it prints."""
    result = invoke(*words)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def rows_of(text: str) -> list[dict[str, str]]:
    """Return the rows of a CSV."""
    return list(csv.DictReader(io.StringIO(text)))
