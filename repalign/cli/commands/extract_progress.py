"""The bar of an extraction: samples, rows, speed, time left."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from repalign.workflows.extract.settings import ExtractProgress


def describe_rate(progress: "ExtractProgress") -> str:
    """Rows so far and their speed, in words."""
    return f"{progress.rows:,} rows, {progress.speed}"


@contextmanager
def extract_bar(*, quiet: bool) -> Iterator["Callable[[ExtractProgress], None] | None"]:
    """Show the bar while the block runs; nothing off a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("extract"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("loading", total=None)

        def on_progress(progress: "ExtractProgress") -> None:
            bar.update(
                task,
                completed=progress.samples_done,
                total=progress.samples_total,
                description=describe_rate(progress),
            )

        yield on_progress
