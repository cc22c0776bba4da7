"""``repalign disentangle``."""

from pathlib import Path
from typing import Annotated

import typer

from repalign.cli import output
from repalign.cli.commands.study_options import (
    IdColumnOption,
    IdsOption,
    SaveTransformOption,
    machine_of,
)
from repalign.cli.declared import Given, with_options
from repalign.cli.formats import render
from repalign.cli.inputs import WRITTEN
from repalign.cli.options import (
    FormatOption,
    MachineDeviceOption,
    MemoryOption,
    OutputOption,
    OverwriteOption,
)
from repalign.cli.tables import shown_scores
from repalign.cli.talk import talk_of
from repalign.store.foreign.formats import SUFFIX_LIST
from repalign.workflows.disentangle.settings import FACTORS, TRUST, FactorSettings

MOVED = "the study of labels and batches is a command of its own: repalign deconfound"


def _moved(value: str | None) -> None:
    if value is not None:
        raise typer.BadParameter(MOVED)


@with_options(FactorSettings)
def disentangle(
    context: typer.Context,
    stores: Annotated[
        list[str],
        typer.Argument(
            help=f"Sets of embeddings: stores, or foreign files ({SUFFIX_LIST}); file::view "
            "chooses a view."
        ),
    ],
    *,
    factors: Annotated[
        str,
        typer.Option(
            help="Ground-truth factors, a column each: .csv, .tsv, .parquet, .npz, store.h5::view, "
            "or builtin:digits.",
            rich_help_panel=FACTORS,
        ),
    ],
    groups: Annotated[
        str | None,
        typer.Option(
            help="Rows that belong together (documents, plates, objects): a column of the factors' "
            "table, or a file with a group a line. Shuffles and half-samples keep them together.",
            rich_help_panel=TRUST,
            show_default="rows of one sample",
        ),
    ] = None,
    given: Given,
    id_column: IdColumnOption = None,
    ids: IdsOption = None,
    device: MachineDeviceOption = "auto",
    memory: MemoryOption = "2GiB",
    save_transform: SaveTransformOption = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw what latents know of factors into this file (.png, .pdf, .svg).",
            dir_okay=False,
        ),
        WRITTEN,
    ] = None,
    overwrite: OverwriteOption = False,
    form: FormatOption = None,
    to: OutputOption = None,
    label: Annotated[str | None, typer.Option(hidden=True, callback=_moved, help=MOVED)] = None,
    batch: Annotated[str | None, typer.Option(hidden=True, callback=_moved, help=MOVED)] = None,
) -> None:
    """Do latents recover known factors, and does ICA help?

    Prints InfoE, InfoM, InfoC and other disentanglement scores, raw, whitened, after ICA and
    after a random rotation, each with a shuffled-factor null and an interval. On a pipe it is
    CSV.

    Example: repalign disentangle latents.h5 --factors factors.csv
    """
    from repalign.store.sources.opening import open_embeddings
    from repalign.workflows.columns import open_columns
    from repalign.workflows.conditions.saved import check_folder, save_transforms
    from repalign.workflows.disentangle.run import disentangle as run

    chosen = output.choose_format(form, to)
    conditions = ("transform", "conditions")
    if given.get(("discrete_latents",)) and conditions not in given:
        given[conditions] = ("raw",)  # codes cannot be whitened
    settings = given.settings(FactorSettings())
    if plot is not None:
        output.check_figure(plot)
    if save_transform is not None:
        check_folder(save_transform, overwrite=overwrite)
    talk = talk_of(context)
    with talk.stages("disentangling") as on_stage:
        result = run(
            [open_embeddings(store, ids=ids) for store in stores],
            open_columns(factors, id_column=id_column),
            groups=groups,
            settings=settings,
            machine=machine_of(device, memory, talk, on_stage),
        )
    output.emit(render(shown_scores(result), chosen), to)
    for warning in result.warnings:
        talk.warn(warning)
    if plot is not None:
        output.save_figure(result.plot(), plot)
    if save_transform is not None:
        for path in save_transforms(
            result.transforms, save_transform, settings=result.settings, overwrite=overwrite
        ):
            talk.note(f"wrote {path}")
