"""``repalign disentangle``."""

from pathlib import Path
from typing import Annotated

import typer

from repalign.cli import output
from repalign.cli.commands.study_options import StudyOptions
from repalign.cli.declared import Given, fields_of, options, standing_for
from repalign.cli.engine import EngineOptions, WorkersOption
from repalign.cli.inputs import WRITTEN
from repalign.cli.options import NoCacheOption
from repalign.cli.talk import talk_of
from repalign.disentanglement.settings import FACTORS, TRUST, FactorSettings
from repalign.store.formats.formats import SUFFIX_LIST

MOVED = "the study of labels and batches is a command of its own: repalign deconfound"


def _moved(value: str | None) -> None:
    if value is not None:
        raise typer.BadParameter(MOVED)


@standing_for(
    given=options(FactorSettings), shared=fields_of(StudyOptions), place=fields_of(EngineOptions)
)
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
            help="Ground-truth factors, a column each: .csv, .tsv, .parquet, .npz, .h5ad (obs), "
            "store.h5::view, or builtin:digits.",
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
    workers: WorkersOption = None,
    place: EngineOptions,
    no_cache: NoCacheOption = False,
    shared: StudyOptions,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw what latents know of factors into this file (.png, .pdf, .svg).",
            dir_okay=False,
        ),
        WRITTEN,
    ] = None,
    label: Annotated[str | None, typer.Option(hidden=True, callback=_moved, help=MOVED)] = None,
    batch: Annotated[str | None, typer.Option(hidden=True, callback=_moved, help=MOVED)] = None,
) -> None:
    """Do latents recover known factors, and does ICA help?

    Prints InfoE, InfoM, InfoC and other disentanglement scores, raw, whitened, after ICA and
    after a random rotation, each with a shuffled-factor null and an interval. On a pipe it is
    CSV.

    Example: repalign disentangle latents.h5 --factors factors.csv
    """
    from repalign.conditions.columns import open_columns
    from repalign.disentanglement.run import disentangle as run
    from repalign.disentanglement.run import named_columns
    from repalign.engine.cache import private_cache
    from repalign.store.open import open_embeddings

    chosen = shared.check_outputs()
    conditions = ("transform", "conditions")
    if given.get(("discrete_latents",)) and conditions not in given:
        given[conditions] = ("raw",)  # codes cannot be whitened
    settings = given.settings(FactorSettings())
    if plot is not None:
        output.check_figure(plot)
    not_features = [
        *named_columns(settings, groups),
        *([shared.id_column] if shared.id_column else []),
    ]
    talk, cache = talk_of(context), None if no_cache else private_cache()
    place.warn(talk)
    with talk.stages("disentangling") as on_stage, place.chosen(workers, cache) as engine:
        result = run(
            [open_embeddings(store, ids=shared.ids, leave_out=not_features) for store in stores],
            open_columns(factors, id_column=shared.id_column),
            groups=groups,
            settings=settings,
            machine=shared.machine(talk, on_stage),
            executor=engine,
        )
    if cache is not None:
        cache.trim()
        talk.detail(f"{engine.n_cached} results from the cache, {engine.n_computed} computed")
    shared.show(result, result.shown(), chosen, talk)
    if plot is not None:
        output.save_figure(result.plot(), plot, talk)
