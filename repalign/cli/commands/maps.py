"""``repalign maps`` and ``repalign apply``."""

from pathlib import Path
from typing import Annotated

import typer

from repalign.cli import output
from repalign.cli.inputs import WRITTEN
from repalign.cli.options import FormatOption, OutputOption, OverwriteOption
from repalign.cli.talk import talk_of
from repalign.tables.formats import shown_records

app = typer.Typer(no_args_is_help=True, help="Look at maps that compare --save-maps wrote.")

MapArgument = Annotated[Path, typer.Argument(help="Saved map (.safetensors).")]


@app.callback()
def maps() -> None:
    """Look at maps that compare --save-maps wrote."""


@app.command()
def info(
    context: typer.Context,
    map_file: MapArgument,
    form: FormatOption = None,
    to: OutputOption = None,
) -> None:
    """Say what a saved map is: kind, widths, rank, stretches, where it comes from.

    Example: repalign maps info maps/01-rigid.safetensors
    """
    from repalign.results.saved_maps import describe_map, map_record

    report = describe_map(map_file)
    record = map_record(report)
    document = record | {"metadata": dict(report.metadata)}
    output.show(shown_records([record], document), form, to, talk_of(context))


def apply(
    context: typer.Context,
    map_file: MapArgument,
    embeddings: Annotated[
        str, typer.Argument(help="Rows to map: a store or any other embeddings; file::view.")
    ],
    to: Annotated[Path, typer.Option("--output", "-o", help="Store to write (.h5)."), WRITTEN],
    inverse: Annotated[bool, typer.Option("--inverse", help="Apply the inverse map.")] = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Send rows through a saved map and write them as a store.

    Example: repalign apply maps/01-rigid.safetensors new.h5 -o mapped.h5
    """
    from repalign.results.saved_maps import apply_map

    talk = talk_of(context)
    with talk.stages("mapping") as on_stage:
        written = apply_map(
            map_file, embeddings, to, inverse=inverse, overwrite=overwrite, on_stage=on_stage
        )
    talk.note(f"wrote {written.path}: {written.n_rows} rows")
