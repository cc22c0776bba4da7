"""``repalign models``."""

from typing import Annotated

import typer

from repalign.cli import output
from repalign.cli.declared import Given, with_options
from repalign.cli.formats import render
from repalign.cli.options import FormatOption, OutputOption
from repalign.cli.tables import shown_records
from repalign.cli.talk import talk_of
from repalign.workflows.extract.settings import ViewSettings

app = typer.Typer()


@app.callback(invoke_without_command=True)
def models(context: typer.Context, form: FormatOption = None, to: OutputOption = None) -> None:
    """List the presets: short names for checkpoints, with what is certain and what is inferred.

    Any other model is named as `repalign extract --help` says.

    Example: repalign models --format json
    """
    if context.invoked_subcommand is not None:
        return
    from repalign.models.naming.presets import PAIRS, PRESETS

    pairs = {name: pair.name for pair in PAIRS for name in (pair.source, pair.target)}
    records = [
        {
            "preset": preset.name,
            "model": preset.model,
            "pair": pairs.get(preset.name, ""),
            "certain": preset.certain,
            "inferred": preset.inferred,
            "licence": preset.licence,
        }
        for preset in PRESETS.values()
    ]
    output.emit(output.render_records(records, output.choose_format(form, to)), to)
    talk = talk_of(context)
    for pair in PAIRS:
        talk.note(f"pair {pair.name}: {pair.source}, {pair.target}. Certain: {pair.certain}")
        talk.note(f"  Inferred: {pair.inferred}")


@app.command()
@with_options(ViewSettings)
def show(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Name of a model, a preset, or a path.")],
    given: Given,
    form: FormatOption = None,
    to: OutputOption = None,
) -> None:
    """Show a model's layers with their sizes, and the exact views that extract would make.

    Loads the weights and runs one blank input, no data.

    Example: repalign models show pythia-160m-seed1 --layer final --layer -2
    """
    from dataclasses import asdict

    from repalign.models.description import describe_model
    from repalign.models.naming.hub import prepare_environment

    settings = given.settings(ViewSettings())
    prepare_environment(offline=settings.offline)
    found = describe_model(
        model,
        layers=settings.layers,
        pools=settings.pools,
        preprocess=settings.preprocess,
        image_backend=settings.image_backend,
        trust_code=settings.trust_code,
    )
    chosen = output.choose_format(form, to)
    shown = shown_records([asdict(line) for line in found.layers], asdict(found))
    output.emit(render(shown, chosen), to)
    if chosen == "json":
        return
    talk = talk_of(context)
    talk.note(
        f"{found.model}: {found.class_name} ({found.loader}), family {found.family}, "
        f"{found.parameters:,} parameters, licence {found.licence or 'unknown'}"
    )
    if found.certain:
        talk.note(f"certain: {found.certain}")
    if found.inferred:
        talk.note(f"inferred: {found.inferred}")
    talk.note(f"final: {found.final}; poolings: {', '.join(found.poolings)}")
    talk.note(f"inputs: {found.prepared}")
    for key, module, pooling in found.views:
        talk.note(f"view {key}: {module}, pooled by {pooling}")
