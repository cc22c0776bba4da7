"""``repalign deconfound``."""

from typing import Annotated

import typer

from repalign.cli.commands.study_options import StudyOptions
from repalign.cli.declared import Given, fields_of, options, standing_for
from repalign.cli.options import NoCacheOption
from repalign.cli.talk import talk_of
from repalign.deconfounding.settings import BATCHES, BatchSettings
from repalign.exceptions import InputError
from repalign.store.formats.formats import SUFFIX_LIST


@standing_for(given=options(BatchSettings), shared=fields_of(StudyOptions))
def deconfound(
    context: typer.Context,
    store: Annotated[
        str,
        typer.Argument(
            help=f"A set of embeddings: a store, or a foreign file ({SUFFIX_LIST}); file::view "
            "chooses a view."
        ),
    ],
    *,
    label: Annotated[
        list[str],
        typer.Option(
            help="Column of labels to tell on held-out batches; repeatable.",
            rich_help_panel=BATCHES,
        ),
    ],
    batch: Annotated[
        str, typer.Option(help="Column of batches (plates, sites).", rich_help_panel=BATCHES)
    ],
    table: Annotated[
        str | None,
        typer.Option(
            help="Table with the label and batch columns.",
            rich_help_panel=BATCHES,
            show_default="the embeddings' own file, where it is a table",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(min=1, help="Folds at the same time, in threads.", rich_help_panel=BATCHES),
    ] = 1,
    no_cache: NoCacheOption = False,
    given: Given,
    shared: StudyOptions,
) -> None:
    """Does a label survive a change of batch, and on how few features does it rest?

    A classifier learns the label on some batches and is judged on others: raw, whitened, after
    ICA and after a random rotation. On a pipe it is CSV.

    Example: repalign deconfound cells.h5 --table wells.csv --label perturbed --batch plate
    """
    from repalign.conditions.columns import open_columns
    from repalign.deconfounding.run import deconfound as run
    from repalign.engine.cache import private_cache
    from repalign.engine.engine import Engine, ThreadPool
    from repalign.store.open import open_embeddings

    chosen = shared.check_outputs()
    settings = given.settings(BatchSettings())
    own_ids, table_ids = (shared.id_column, None) if table is None else (None, shared.id_column)
    not_features = [name for name in (*label, batch, table_ids) if name is not None]
    source = open_embeddings(store, ids=shared.ids, id_column=own_ids, leave_out=not_features)
    columns = open_columns(table or _own_table(store), id_column=shared.id_column)
    talk, cache = talk_of(context), None if no_cache else private_cache()
    with talk.stages("deconfounding") as on_stage:
        result = run(
            source,
            columns,
            labels=label,
            batch=batch,
            settings=settings,
            machine=shared.machine(talk, on_stage),
            executor=ThreadPool(workers, cache) if workers > 1 else Engine(cache),
        )
    if cache is not None:
        cache.trim()
    shared.show(result, result.shown(), chosen, talk)


def _own_table(store: str) -> str:
    from repalign.conditions.columns import TABLES
    from repalign.store.source import parse_locator

    path = parse_locator(store).path
    if path.suffix.lower() not in TABLES:
        raise InputError(
            f"{store}: holds no columns of labels and batches; give the table that does (--table)"
        )
    return str(path)
