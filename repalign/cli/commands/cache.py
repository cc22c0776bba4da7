"""``repalign cache``."""

from pathlib import Path
from typing import Any

import typer

from repalign.cli import output
from repalign.cli.options import FormatOption, OutputOption
from repalign.cli.talk import Talk, talk_of
from repalign.tables.formats import shown_records

app = typer.Typer(no_args_is_help=True, help="Look at finished work that is kept, or remove it.")


@app.callback()
def cache() -> None:
    """Look at finished work that is kept, or remove it."""


@app.command()
def info(context: typer.Context, form: FormatOption = None, to: OutputOption = None) -> None:
    """Say where finished results of comparisons are kept, how many, and how large they are.

    REPALIGN_CACHE in the environment names another folder, REPALIGN_CACHE_BYTES another limit.

    Example: repalign cache info
    """
    from repalign.engine.cache import open_cache

    _show(open_cache().info(), form, to, talk_of(context))


@app.command()
def clear(context: typer.Context, form: FormatOption = None, to: OutputOption = None) -> None:
    """Remove all finished results, and say how many there were.

    Example: repalign cache clear
    """
    from repalign.engine.cache import open_cache

    _show(open_cache().clear(), form, to, talk_of(context))


def _show(record: dict[str, Any], form: str | None, to: Path | None, talk: Talk) -> None:
    output.show(shown_records([record], record), form, to, talk)
