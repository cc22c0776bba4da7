"""Options that several commands share, each defined once."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from repalign.cli.formats import FORMATS, FormatName, MatrixFormatName
from repalign.cli.inputs import SHOWN, WRITTEN


def _format_option(*, of_pairs: bool) -> Any:
    told = [each.told for each in FORMATS.values() if of_pairs or not each.of_pairs]
    return typer.Option(
        "--format",
        "-f",
        help=f"{', '.join(told)}. Default: by the ending of --output, else a table on a terminal "
        "and CSV on a pipe.",
        metavar="FORMAT",
        show_default=False,
    )


FormatOption = Annotated[FormatName | None, _format_option(of_pairs=False), SHOWN]
MatrixFormatOption = Annotated[MatrixFormatName | None, _format_option(of_pairs=True), SHOWN]
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
NoCacheOption = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        help="Compute everything, and keep nothing for the next run (repalign cache).",
    ),
]
