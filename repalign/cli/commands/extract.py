"""``repalign extract``."""

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from repalign.cli import output
from repalign.cli.commands.extract_progress import extract_bar
from repalign.cli.declared import Given, fields_of, options, standing_for
from repalign.cli.engine import ActorOptions
from repalign.cli.failures import explain
from repalign.cli.inputs import WRITTEN
from repalign.cli.options import FormatOption
from repalign.cli.talk import Talk, talk_of
from repalign.exceptions import ModelError
from repalign.extraction.settings import ExtractSettings
from repalign.models.names import FORMS
from repalign.tables.formats import shown_records

if TYPE_CHECKING:
    from repalign.extraction.settings import ExtractResult


@standing_for(given=options(ExtractSettings), shared=fields_of(ActorOptions))
def extract(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(help=f"{escape(FORMS)} (`repalign models`)."),
    ] = None,
    *,
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
            help="The store: a file ending in .h5, or a directory of shards. With --models a "
            "folder, for a store of each.",
        ),
        WRITTEN,
    ],
    models: Annotated[
        Path | None,
        typer.Option(
            help="Instead of a model, a file with one a line, MODEL or NAME=MODEL; the store of "
            "each is NAME.h5 in the folder of --output.",
            dir_okay=False,
        ),
    ] = None,
    given: Given,
    shared: ActorOptions,
    form: FormatOption = None,
) -> None:
    """Extract embeddings of a pretrained model into a store; run it again to continue.

    Under torchrun or Slurm the processes share the work and write one store; with --engine ray
    the processes of a cluster do, for one model or for a list of them.

    Example: repalign extract timm:resnet18.a1_in1k --data photos/ -o a1.h5
    """
    from repalign.extraction.settings import settings_of_list

    if (model is None) == (models is None):
        raise typer.BadParameter("give a model, or a list of them by --models")
    chosen = output.choose_format(form, None)
    settings = given.settings(ExtractSettings(model or "", data, store))
    talk = talk_of(context)
    if models is None:
        extractions = [settings]
        _say_preset(talk, settings.model)
        _say_remote(talk, settings)
    else:
        extractions = settings_of_list(models, store, settings)
    shared.warn(talk)
    with extract_bar(quiet=talk.quiet) as on_progress:
        if shared.engine == "ray":
            from repalign.engine.shards import extract_on_ray

            outcomes: list[ExtractResult | Exception] = [
                *extract_on_ray(extractions, shared.ray(), on_progress)
            ]
        else:
            from repalign.extraction.run import extract_in_turn

            outcomes = extract_in_turn(extractions, on_progress)
    failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if len(outcomes) == len(failures) == 1:
        raise failures[0]
    results = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
    output.show(shown_records([_record(each) for each in results]), chosen)
    for result in results:
        _say(talk, result)
    if failures:
        lines = [
            f"{each.model}: {explain(outcome)}"
            for each, outcome in zip(extractions, outcomes, strict=True)
            if isinstance(outcome, Exception)
        ]
        for line, failure in zip(lines, failures, strict=True):
            talk.warn(line)
            if talk.debug:
                traceback.print_exception(failure)
        raise ModelError(
            f"{len(failures)} of {len(outcomes)} models could not be extracted, the first is "
            f"{lines[0]}"
        )


def _say_preset(talk: Talk, model: str) -> None:
    from repalign.models.names import resolve_name

    _, preset = resolve_name(model)
    if preset is None:
        return
    talk.note(f"{model} is {preset.model} (licence {preset.licence}). {preset.certain}")
    if preset.inferred:
        talk.note(f"not certain: {preset.inferred}")


def _say_remote(talk: Talk, settings: ExtractSettings) -> None:
    """Print what is waited for where the model is not a local path."""
    from repalign.models.checkpoints import is_offline
    from repalign.models.names import LOCAL, parse_model, resolve_name

    spec = parse_model(resolve_name(settings.model)[0])
    if spec.loader != LOCAL and spec.path is None and not (settings.offline or is_offline()):
        talk.note(f"{spec}: asking the network; --offline asks the cache alone")


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
    if not result.is_complete:
        talk.note("this process is done; other processes still write their shards")
    elif result.rows_new == 0:
        talk.note("the store was complete already; nothing was computed")
    else:
        speed = result.speed
        talk.note(
            f"wrote {result.path}: {result.rows_new:,} rows in {speed.seconds:.1f} s ({speed})"
        )
