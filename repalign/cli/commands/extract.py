"""``repalign extract``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from repalign.cli import output
from repalign.cli.commands.extract_progress import extract_bar
from repalign.cli.declared import Given, with_options
from repalign.cli.inputs import WRITTEN
from repalign.cli.options import FormatOption
from repalign.cli.talk import Talk, talk_of
from repalign.models.naming.loaders import FORMS
from repalign.workflows.extract.settings import ExtractSettings

if TYPE_CHECKING:
    from repalign.workflows.extract.settings import ExtractResult


@with_options(ExtractSettings)
def extract(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(help=f"{escape(FORMS)} (`repalign models`)."),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="Text (.txt, .md, .jsonl, .csv, .parquet), images (directory, list, .npy, .npz, "
            ".h5, IDX) or sounds (directory, list): a file or a directory, builtin:shakespeare, "
            "builtin:digits, or datasets:name@split."
        ),
    ],
    store: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The store: a file ending in .h5, or a directory of shards.",
        ),
        WRITTEN,
    ],
    given: Given,
    form: FormatOption = None,
) -> None:
    """Extract embeddings of a pretrained model into a store; run it again to continue.

    Under torchrun or Slurm the processes share the work and write one store.

    Example: repalign extract timm:resnet18.a1_in1k --data photos/ -o a1.h5
    """
    from repalign.workflows.extract.run import extract as run

    settings = given.settings(ExtractSettings(model, data, store))
    talk = talk_of(context)
    _say_preset(talk, model)
    with extract_bar(quiet=talk.quiet) as on_progress:
        result = run(settings, on_progress)
    records = [_record(result)]
    output.emit(output.render_records(records, output.choose_format(form, None)))
    _say(talk, result)


def _say_preset(talk: Talk, model: str) -> None:
    from repalign.models.naming.presets import resolve_name

    _, preset = resolve_name(model)
    if preset is None:
        return
    talk.note(f"{model} is {preset.model} (licence {preset.licence}). {preset.certain}")
    if preset.inferred:
        talk.note(f"not certain: {preset.inferred}")


def _record(result: "ExtractResult") -> dict[str, Any]:
    return {
        "store": str(result.path),
        "complete": result.is_complete,
        "rows": result.n_rows,
        "views": " ".join(f"{key}:{dim}" for key, dim in result.views.items()),
        "new_rows": result.rows_new,
        "seconds": round(result.speed.seconds, 3),
        "device": result.device,
        "fingerprint": result.fingerprint,
    }


def _say(talk: Talk, result: "ExtractResult") -> None:
    for warning in result.warnings:
        talk.warn(warning)
    if result.device_difference is not None:
        talk.note(f"{result.device} agrees with the CPU to {result.device_difference:.1e}")
    if not result.is_complete:
        talk.note("this process is done; other processes still write their shards")
    elif result.rows_new == 0:
        talk.note("the store was complete already; nothing was computed")
    else:
        speed = result.speed
        talk.note(
            f"wrote {result.path}: {result.rows_new:,} rows in {speed.seconds:.1f} s ({speed})"
        )
