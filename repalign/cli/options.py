"""Options that several commands share, each defined once."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from repalign.cli.formats import DRAWN_MATRIX, FORMATS, MATRIX, FormatName
from repalign.cli.inputs import SHOWN, WRITTEN

# Commands whose results are pairs of views.
WITH_MATRIX = ("compare", "rerun")


def _check_form(context: typer.Context, form: str | None) -> str | None:
    """Refuse, before anything is computed, a matrix of what has none."""
    if form in (MATRIX, DRAWN_MATRIX) and context.info_name not in WITH_MATRIX:
        raise typer.BadParameter(f"{form} is a format of {' and '.join(WITH_MATRIX)} alone")
    return form


FormatOption = Annotated[
    FormatName | None,
    typer.Option(
        "--format",
        "-f",
        help="How to print the result: "
        + ", ".join(each.told for each in FORMATS.values())
        + ". Default: by the ending of --output where there is one, a table on a terminal, CSV "
        "when stdout is piped.",
        show_default=False,
        callback=_check_form,
    ),
    SHOWN,
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Write the result to this file instead of stdout; - is stdout.",
        dir_okay=False,
    ),
    WRITTEN,
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace the output if it exists.")
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed", min=0, help="Seed of everything that is random; same seed, same result."
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        help="auto, cpu, cuda, cuda:N or mps. A device that was asked for is never replaced "
        "by another in silence.",
    ),
]
MachineDeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        help="auto, cpu, cuda or cuda:N; auto is the first CUDA device, else the CPU. Moments "
        "need double precision, which mps lacks.",
    ),
]
MemoryOption = Annotated[
    str,
    typer.Option("--memory", help="Cap on working memory, for example 2GiB; sets the block size."),
]
MismatchOption = Annotated[
    Literal["refuse", "intersect"],
    typer.Option(
        "--on-mismatch",
        help="What to do when the stores do not hold the same rows: refuse, or go on with the "
        "common rows and record it in every result.",
    ),
]
