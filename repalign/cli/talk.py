"""What the command line says besides its data: notes, warnings and progress, all on stderr."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from repalign.printable import printable
from repalign.tables.warnings import fold_warnings

OnStage = Callable[[str, int, int], None]


class OnProgress(Protocol):
    """Called with what is done and what there is in all; may rename the bar."""

    def __call__(self, done: int, total: int, stage: str | None = None) -> None:
        """Move the bar."""


def _ignore_progress(done: int, total: int, stage: str | None = None) -> None:
    """Stand in for a bar that is not shown."""


@dataclass(frozen=True)
class Talk:
    """How much to say on stderr; one for every run of the command."""

    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    # Consoles of the bars that are shown: what is said through them stands above the bar.
    _shown: list[Console] = field(default_factory=list, init=False, repr=False, compare=False)

    def _console(self) -> Console:
        if self._shown:
            return self._shown[-1]
        # Made at each use: stderr may have been replaced since. Off a terminal rich would
        # assume 80 columns and wrap, which breaks lines that other programs read.
        if sys.stderr.isatty():
            return Console(stderr=True, highlight=False)
        return Console(stderr=True, highlight=False, width=100_000)

    def note(self, message: str) -> None:
        """Say something useful that is not a warning."""
        if not self.quiet:
            self._say(message)

    def detail(self, message: str) -> None:
        """Say something that only --verbose wants."""
        if self.verbose and not self.quiet:
            self._say(message, "dim")

    def warn(self, message: str) -> None:
        """Say something that changes how a result should be read; --quiet does not hide it."""
        self._say(f"warning: {message}", "yellow")

    def warn_of_pairs(self, warnings: Iterable[Iterable[str]], names: Iterable[str]) -> None:
        """Say the warnings of every pair; those of many that differ in these names and in numbers
        alone are one line, unless --verbose wants all of them.
        """
        texts = [text for of_pair in warnings for text in of_pair]
        lines = (
            dict.fromkeys(texts)
            if self.verbose
            else fold_warnings(texts, names, " (--verbose tells all)")
        )
        for line in lines:
            self.warn(line)

    def broken(self, message: str) -> None:
        """Say that something which was asked to hold does not."""
        self._say(f"gate: {message}", "red")

    def error(self, message: str) -> None:
        """Say in one line why the command failed."""
        one_line = " ".join(message.split())
        self._say(f"error: {one_line}", "bold red")

    def _say(self, message: str, style: str | None = None) -> None:
        self._console().print(printable(message), markup=False, style=style)

    @contextmanager
    def progress(self, description: str, *, in_shares: bool = False) -> Iterator[OnProgress]:
        """Show a bar while the block runs; the callback takes (done, total).

        It counts, or says the share that is done. No bar off a terminal or with --quiet.
        """
        if self.quiet or not sys.stderr.isatty():
            yield _ignore_progress
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn() if in_shares else MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console(), transient=True) as bar, self._above(bar):
            task = bar.add_task(printable(description), total=None)
            shown = description

            def on_progress(done: int, total: int, stage: str | None = None) -> None:
                nonlocal shown
                name = description if stage is None else f"{description}: {stage}"
                if name.partition(",")[0] != shown.partition(",")[0]:
                    bar.reset(task)  # the time left is that of the stage
                shown = name
                bar.update(task, completed=done, total=total, description=printable(name))

            yield on_progress

    @contextmanager
    def _above(self, bar: Progress) -> Iterator[None]:
        """Say what is said in the block above a bar, and not behind it in its line."""
        self._shown.append(bar.console)
        try:
            yield
        finally:
            self._shown.pop()

    @contextmanager
    def stages(self, description: str) -> Iterator[OnStage]:
        """Show a bar that names the stage it is in; the callback takes (stage, done, total)."""
        with self.progress(description, in_shares=True) as on_progress:

            def on_stage(stage: str, done: int, total: int) -> None:
                on_progress(done, total, stage)

            yield on_stage


def talk_of(context: typer.Context) -> Talk:
    """Return the talk that the root command made from its options."""
    talk = context.find_object(Talk)
    return talk if talk is not None else Talk()
