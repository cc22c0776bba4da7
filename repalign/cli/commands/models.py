"""``repalign models``."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from repalign.cli import output
from repalign.cli.declared import Given, options, standing_for
from repalign.cli.options import FormatOption, OutputOption
from repalign.cli.talk import Talk, talk_of
from repalign.extraction.settings import ViewSettings
from repalign.tables.formats import shown_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from repalign.models.names import Preset

app = typer.Typer()


@app.callback(invoke_without_command=True)
def models(
    context: typer.Context,
    kind: Annotated[
        Literal["text", "image"] | None,
        typer.Option(help="Only models that take such data.", show_default="all"),
    ] = None,
    search: Annotated[
        str, typer.Option(help="Only models with this in their name; says more of each.")
    ] = "",
    form: FormatOption = None,
    to: OutputOption = None,
) -> None:
    """List the presets: short names for checkpoints, with what is certain and what is inferred.

    A table has a line for each group of them, and with --search for each preset; CSV and JSON
    have a record for each preset and say all of it. Any other model is named as `repalign
    extract --help` says.

    Example: repalign models --kind text --search 160m
    """
    if context.invoked_subcommand is not None:
        return
    from repalign.models.names import find_presets

    found = find_presets(kind, search)
    chosen = output.choose_format(form, to)
    records = _records(found)
    if chosen == "table":
        records = _lines(found) if search else _group_lines(found)
    talk = talk_of(context)
    output.show(shown_records(records), chosen, to, talk)
    if search and chosen == "table":
        _say_sentences(talk, found)
    _say_pairs(talk, found)


def _records(presets: "Sequence[Preset]") -> list[dict[str, str]]:
    from repalign.models.names import PAIRS

    pairs = {name: pair.name for pair in PAIRS for name in (pair.source, pair.target)}
    return [
        {
            "preset": preset.name,
            "model": preset.model,
            "group": preset.group,
            "kind": preset.kind,
            "pair": pairs.get(preset.name, ""),
            "certain": preset.certain,
            "inferred": preset.inferred,
            "licence": preset.licence,
        }
        for preset in presets
    ]


def _lines(presets: "Sequence[Preset]") -> list[dict[str, str]]:
    return [
        {"preset": preset.name, "model": preset.model, "licence": preset.licence}
        for preset in presets
    ]


def _group_lines(presets: "Sequence[Preset]") -> list[dict[str, str]]:
    from repalign.models.names import preset_groups, shown_names

    return [
        {
            "presets": shown_names([member.name for member in members]),
            "kind": members[0].kind,
            "licence": ", ".join(dict.fromkeys(member.licence for member in members)),
        }
        for members in preset_groups(presets).values()
    ]


def _say_sentences(talk: Talk, presets: "Sequence[Preset]") -> None:
    """Say what is certain of presets and what is not, once for those of which the same holds."""
    from repalign.models.names import shown_names

    said: dict[tuple[str, str], list[str]] = {}
    for preset in presets:
        said.setdefault((preset.certain, preset.inferred), []).append(preset.name)
    for (certain, inferred), names in said.items():
        more = f" Not certain: {inferred}" if inferred else ""
        talk.note(f"{shown_names(names)}: {certain}{more}")


def _say_pairs(talk: Talk, presets: "Sequence[Preset]") -> None:
    from repalign.models.names import PAIRS

    names = {preset.name for preset in presets}
    for pair in PAIRS:
        if {pair.source, pair.target} <= names:
            talk.note(f"pair {pair.name}: {pair.source}, {pair.target}. Certain: {pair.certain}")
            talk.note(f"  Inferred: {pair.inferred}")


@app.command()
@standing_for(given=options(ViewSettings))
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

    from repalign.models.checkpoints import prepare_environment
    from repalign.models.describe import describe_model

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
    talk = talk_of(context)
    output.show(shown, chosen, to, talk)
    if chosen == "json":
        return
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
