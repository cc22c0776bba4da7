"""``repalign demo``."""

import shlex
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repalign.cli import output
from repalign.cli.formats import render
from repalign.cli.inputs import WRITTEN
from repalign.cli.options import DeviceOption, FormatOption, OutputOption
from repalign.cli.tables import shown_table_one, terminal_width
from repalign.cli.talk import talk_of

if TYPE_CHECKING:
    from repalign.experiments.table_one import TableOne

DEFAULT_FOLDER = "demo"


def demo(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder that keeps the stores and results; without it they are deleted again.",
            file_okay=False,
        ),
        WRITTEN,
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="All text, five folds, 99 shuffles, six ICA starts: some minutes."
        ),
    ] = False,
    device: DeviceOption = "auto",
    form: FormatOption = None,
    to: OutputOption = None,
) -> None:
    """See the whole tool at work on small trained models that come with it, without a download.

    Extracts embeddings of language models, masked autoencoders and ResNets, compares each pair,
    and prints the table of the paper with the paper's own numbers next to ours, what it means,
    and the commands that do the same step by step.

    Example: repalign demo demo
    """
    from repalign.core.device import thread_count
    from repalign.experiments.table_one import FULL, SMALL, run_table_one

    talk = talk_of(context)
    chosen = output.choose_format(form, to)
    settings = FULL if full else SMALL
    with _working_folder(folder) as where, talk.stages("demo") as on_stage:
        table_one = run_table_one(
            where, settings, device=device, workers=thread_count(), on_stage=on_stage
        )
    shown = shown_table_one(table_one)
    if folder is not None:
        for kept in ("csv", "json"):
            output.show(shown, kept, folder / f"results.{kept}")
    explanation = _explanation(table_one, folder)
    text = render(shown, chosen, on_terminal=output.is_terminal(to))
    if chosen == "table":
        text, explanation = "\n".join([text, *explanation]), []
    output.emit(text, to, talk)
    for line in explanation:
        talk.note(line)
    if folder is not None:
        talk.note(f"wrote {folder / 'results.csv'} and {folder / 'results.json'}")
    talk.note(
        f"extracted in {table_one.extract_seconds:.0f} s, compared in "
        f"{table_one.compare_seconds:.0f} s"
    )


@contextmanager
def _working_folder(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="repalign-demo-") as temporary:
        yield Path(temporary)


def _explanation(table_one: "TableOne", folder: Path | None) -> list[str]:
    """Return what the table means, the commands behind it, and what to do next."""
    from repalign.experiments.table_one_commands import commands_of
    from repalign.experiments.table_one_reading import sentences

    where = DEFAULT_FOLDER if folder is None else shlex.quote(str(folder))
    lines = ["What it means"]
    for text in sentences(table_one):
        lines += textwrap.wrap(
            text, min(terminal_width(), 100), initial_indent="  - ", subsequent_indent="    "
        )
    commands = [
        *([] if folder is not None else [f"mkdir -p {where}"]),
        *commands_of(table_one.settings, where),
    ]
    lines += ["", "The same by hand", *(f"  {command}" for command in commands)]
    next_steps = [] if folder is not None else [f"repalign demo {where}"]
    next_steps += [
        f"repalign report {where}/results.json -o report.html",
        "repalign extract hf:EleutherAI/pythia-14m --data your.txt -o a.h5",
    ]
    return [*lines, "", "Next", *(f"  {command}" for command in next_steps)]
