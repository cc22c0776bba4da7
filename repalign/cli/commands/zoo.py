"""``repalign zoo``: the small trained models of the package, and training more of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repalign.cli import output
from repalign.cli.inputs import NAMED, WRITTEN
from repalign.cli.options import FormatOption, OutputOption
from repalign.cli.talk import talk_of
from repalign.tables.formats import shown_records

if TYPE_CHECKING:
    from repalign.zoo.train import Trained

# Figures that only say on how much data the others stand.
COUNTS = {"held_out_images", "held_out_tokens"}

app = typer.Typer(
    no_args_is_help=True, help="Small trained models that come with repalign; train more of them."
)


@app.command("list")
def list_models(context: typer.Context, form: FormatOption = None, to: OutputOption = None) -> None:
    """List the shipped models with how well they do on data they were not trained on.

    Example: repalign zoo list
    """
    from repalign.zoo.shipped import shipped_models

    chosen = output.choose_format(form, to)
    records = [_record(model) for model in shipped_models()]
    if chosen == "table":  # the name says recipe and seed
        records = [{name: r[name] for name in ("model", "parameters", "figures")} for r in records]
    output.show(shown_records(records), chosen, to, talk_of(context))


@app.command()
def path(
    name: Annotated[str, typer.Argument(help="A shipped model, for example gpt-neox-seed0.")],
) -> None:
    """Print the directory of a shipped model, as other commands take it.

    Example: repalign extract $(repalign zoo path resnet-seed0) --data builtin:digits -o r0.h5
    """
    from repalign.zoo.shipped import shipped_path

    output.emit(str(shipped_path(name)))


@app.command()
def train(
    context: typer.Context,
    recipe: Annotated[
        str,
        typer.Argument(help="gpt-neox, mae-transformers, mae-timm, mae-wide, resnet, ..."),
        NAMED,
    ],
    directory: Annotated[
        Path, typer.Option("--output", "-o", help="New directory for the model."), WRITTEN
    ],
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the initialisation and of the order of the data.")
    ] = 0,
    form: FormatOption = None,
) -> None:
    """Train a model of the zoo on the CPU, in minutes; run it again to continue.

    One thread, so that the same seed gives the same weights on the same machine and versions.

    Example: repalign zoo train resnet --seed 2 -o resnet-seed2
    """
    from repalign.zoo.train import train_model

    talk = talk_of(context)
    with talk.progress(f"training {recipe}") as on_progress:
        trained = train_model(recipe, seed, directory, on_progress)
    output.show(shown_records([_record(trained)]), form)
    talk.note(f"wrote {trained.path}")


def _record(model: "Trained") -> dict[str, Any]:
    return {
        "model": model.path.name,
        "recipe": model.recipe,
        "seed": model.seed,
        "parameters": model.parameters,
        "figures": ", ".join(
            f"{name.replace('_', ' ').replace('held out', 'held-out')} {value:.4g}"
            for name, value in model.figures.items()
            if name not in COUNTS
        ),
    }
