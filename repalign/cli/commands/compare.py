"""``repalign compare``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from repalign.cli import output
from repalign.cli.declared import Given, fields_of, options, presets, standing_for
from repalign.cli.engine import PANEL, EngineOptions
from repalign.cli.gates import (
    BaselineOption,
    FailAboveOption,
    FailBelowOption,
    ToleranceOption,
    check_gates,
    check_shown,
    judge_gates,
    read_gates,
)
from repalign.cli.inputs import SHOWN, WRITTEN
from repalign.cli.names import names_of
from repalign.cli.options import (
    MachineDeviceOption,
    MatrixFormatOption,
    MemoryOption,
    NoCacheOption,
    OutputOption,
)
from repalign.cli.requests import request_of
from repalign.cli.tables import shown_matches
from repalign.cli.talk import talk_of
from repalign.comparison.settings import (
    CHOICE,
    PRESET_HELP,
    PRESETS,
    TRUST,
    CompareSettings,
    settings_with,
)
from repalign.printable import byte_size
from repalign.store.formats.formats import SUFFIX_LIST


@standing_for(
    preset=presets(PRESETS, PRESET_HELP, CompareSettings(), panel=TRUST),
    given=options(CompareSettings),
    shared=fields_of(EngineOptions),
)
def compare(
    context: typer.Context,
    stores: Annotated[
        list[str],
        typer.Argument(
            help=f"Two or more sets of embeddings: stores, or foreign files ({SUFFIX_LIST}); "
            "file::view chooses a view, file::'block-*' several."
        ),
    ],
    *,
    against: Annotated[
        str | None,
        typer.Option(
            help="Compare every one with this one, instead of all pairs.", rich_help_panel=CHOICE
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="What to call a store everywhere, as NAME=STORE with the store as it stands on "
            "the line; can be given several times.",
            metavar="NAME=STORE",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(help="File with one id a line, for inputs that carry none.", exists=True),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            help="File with one group a line (documents, plates, classes): rows of one group are "
            "split and drawn together. Default: rows of one sample.",
            exists=True,
        ),
    ] = None,
    preset: CompareSettings,
    given: Given,
    device: MachineDeviceOption = "auto",
    memory: MemoryOption = "2GiB",
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes that share out stores, starts of ICA and pairs, each with one thread "
            "and the memory cap; 1 is this one, with all its threads.",
            show_default="1; with --engine ray all processors of the cluster",
            rich_help_panel=PANEL,
        ),
    ] = None,
    shared: EngineOptions,
    no_cache: NoCacheOption = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw the errors into this file (.png, .pdf, .svg): bars of a few pairs, a "
            "heat map of many.",
            dir_okay=False,
        ),
        WRITTEN,
    ] = None,
    matches: Annotated[
        Path | None,
        typer.Option(
            help="Also write which layer of another model matches each layer best, and which may "
            "do so as well, into this file (.csv and .json: all; .md, .tex, .txt: by one map).",
            dir_okay=False,
        ),
        WRITTEN,
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            help="Map or measure of the matrix (--format matrix) and of the heat map, which --plot "
            "then draws of a few pairs too.",
            show_default="rigid where it is fitted",
        ),
        SHOWN,
    ] = None,
    order: Annotated[
        Literal["layers", "cluster"],
        typer.Option(help="Order of the heat map: layer by layer, or similar views together."),
        SHOWN,
    ] = "layers",
    save_maps: Annotated[
        Path | None,
        typer.Option(
            help="Also save the maps, fitted on all rows, into this folder.", file_okay=False
        ),
        WRITTEN,
    ] = None,
    fail_above: FailAboveOption = None,
    fail_below: FailBelowOption = None,
    baseline: BaselineOption = None,
    tolerance: ToleranceOption = None,
    form: MatrixFormatOption = None,
    to: OutputOption = None,
) -> Any:
    """How far apart are representations of the same inputs, up to which maps?

    Prints the paper's error table: mean error over the diameter of the target, for a signed
    permutation, a rigid map, a linear map and ICA, next to the mean as a baseline, in-sample and
    held-out, with intervals, nulls and ICA efficiency. On a pipe it is CSV.

    Example: repalign compare a.h5 b.h5 > results.csv
    """
    from repalign.comparison.choose import chosen_pairs, names_of_pairs
    from repalign.comparison.run import compare as run
    from repalign.core.device import choose_device, thread_count
    from repalign.engine.cache import private_cache
    from repalign.engine.machine import Machine, parse_memory
    from repalign.store.formats.identifiers import read_id_lines

    chosen = output.choose_format(form, to)
    matched = None if matches is None else output.choose_format(None, matches)
    if plot is not None:
        output.check_figure(plot)
    settings = settings_with(preset, given)
    if save_maps is not None:
        from repalign.results.saved_maps import check_new_maps

        check_new_maps(save_maps, settings.maps)
    talk = talk_of(context)
    cache = None if no_cache else private_cache()
    engine = shared.chosen(workers, cache)
    shared.warn(talk)
    gates = read_gates(fail_above, fail_below, baseline, tolerance, talk)
    row_ids = None if ids is None else read_id_lines(ids)
    names = names_of(name or [], [*stores, *([] if against is None else [against])])
    check_shown(show, settings)

    def named_pairs() -> list[tuple[str, str]]:
        pairs = chosen_pairs(stores, settings, against=against, names=names, ids=row_ids)
        return names_of_pairs(pairs, settings)

    check_gates(gates, settings, named_pairs)
    with talk.stages("comparing") as on_stage, engine:
        machine = Machine(choose_device(device), parse_memory(memory), on_stage)
        talk.detail(
            f"device {machine.device}, up to {thread_count()} threads, "
            f"{byte_size(machine.memory_bytes)} of working memory"
        )
        result = run(
            *stores,
            against=against,
            names=names,
            ids=row_ids,
            groups=None if groups is None else read_id_lines(groups),
            settings=settings,
            machine=machine,
            executor=engine,
        )
    if cache is not None:
        cache.trim()
        talk.detail(f"{engine.n_cached} results from the cache, {engine.n_computed} computed")
    result = replace(result, request=request_of(context, settings))
    output.show(result.shown(show), chosen, to, talk)
    sides = [end["name"] for pair in result.pairs for end in (pair.source, pair.target)]
    talk.warn_of_pairs([pair.warnings for pair in result.pairs], sides)
    if plot is not None:
        output.save_figure(result.plot(show=show, order=order), plot, talk)
    if matches is not None and matched is not None:
        output.show(shown_matches(result, show), matched, matches, talk)
    if save_maps is not None:
        from repalign.results.saved_maps import save_result_maps

        for path in save_result_maps(result, save_maps):
            talk.note(f"wrote {path}")
    judge_gates(gates, result, talk)
    return result  # for `rerun`, which looks at it
