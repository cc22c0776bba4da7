"""``repalign report``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from repalign.cli import output
from repalign.cli.inputs import WRITTEN
from repalign.cli.talk import talk_of
from repalign.files import check_output, check_regular


def report(
    context: typer.Context,
    results: Annotated[
        Path, typer.Argument(help="The .json (complete) or .csv (tables, errors) of a comparison.")
    ],
    show: Annotated[
        str | None,
        typer.Option(
            help="Map or measure that pairs are mapped and ranked by.",
            show_default="rigid where it was fitted",
        ),
    ] = None,
    by: Annotated[
        Literal["revision"] | None,
        typer.Option(
            help="Also draw it against the training step, from the revisions that the stores "
            "record (step1000), or the folders they come from (checkpoint-1000)."
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The page; by default results.html.", dir_okay=False),
        WRITTEN,
    ] = None,
) -> None:
    """Turn results into one HTML page with tables and figures; it needs no network.

    Example: repalign report results.json -o report.html
    """
    from repalign.report.page import make_report

    talk = talk_of(context)
    check_regular(results)
    target = to or results.with_suffix(".html")
    check_output(target)
    with talk.progress("drawing") as on_progress:
        page = make_report(
            results, on_progress, show=show, by_revision=by == "revision", on_note=talk.note
        )
    output.emit(page, target, talk)
