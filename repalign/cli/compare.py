"""``repalign compare``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from repalign.cli import output
from repalign.cli.formats import render
from repalign.cli.inputs import WRITTEN
from repalign.cli.options import (
    DeviceOption,
    FormatOption,
    MemoryOption,
    MismatchOption,
    OutputOption,
    SeedOption,
)
from repalign.cli.tables import shown_comparison
from repalign.cli.talk import talk_of

if TYPE_CHECKING:
    from repalign.workflows.compare.settings import CompareSettings

TRUST = "How far to trust it"
CONVENTIONS = "Conventions (the paper's by default)"


def compare(
    context: typer.Context,
    stores: Annotated[
        list[str],
        typer.Argument(
            help="Two or more sets of embeddings: stores, or .npy, .npz, .pt, .safetensors, "
            ".parquet, .csv, .h5ad files; file::view chooses a view."
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(help="Compare every one with this one, instead of all pairs."),
    ] = None,
    both: Annotated[bool, typer.Option("--both", help="Map in both directions.")] = False,
    maps: Annotated[
        str | None,
        typer.Option(
            help="Maps, separated by commas, of: mean, identity, permutation, "
            "permutation+scale, rigid-noscale, rigid, linear, ica, ica+scale, ica-components.",
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
    paper: Annotated[
        bool, typer.Option("--paper", help="Exactly the paper's protocol.", rich_help_panel=TRUST)
    ] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="In-sample errors only, no nulls.", rich_help_panel=TRUST),
    ] = False,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit",
            help="All maps, five folds, 99 shuffles, five Gaussian twins, five ICA seeds.",
            rich_help_panel=TRUST,
        ),
    ] = False,
    split: Annotated[
        float | None,
        typer.Option(
            help="Share of the groups held out to judge the maps; 0 for in-sample only.",
            rich_help_panel=TRUST,
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(help="Cross-validate in this many folds.", rich_help_panel=TRUST),
    ] = None,
    null: Annotated[
        int | None,
        typer.Option(
            min=0, help="Shuffles of the pairing; by default what is cheap.", rich_help_panel=TRUST
        ),
    ] = None,
    gaussian_null: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Gaussian twins for the null of the ICA efficiency; by default one where cheap.",
            rich_help_panel=TRUST,
        ),
    ] = None,
    bootstrap: Annotated[
        int | None,
        typer.Option(min=0, help="Bootstrap draws for the intervals.", rich_help_panel=TRUST),
    ] = None,
    ica_solver: Annotated[
        Literal["picard", "sklearn"] | None,
        typer.Option(
            help="picard converges; sklearn is FastICA with its defaults, as in the paper.",
            rich_help_panel=CONVENTIONS,
        ),
    ] = None,
    ica_contrast: Annotated[
        Literal["logcosh", "exp", "cube"] | None,
        typer.Option(help="Nonlinearity of ICA.", rich_help_panel=CONVENTIONS),
    ] = None,
    ica_whitening: Annotated[
        Literal["pca", "none"] | None,
        typer.Option(
            help="Whiten first, or only centre and scale by one number (sklearn only).",
            rich_help_panel=CONVENTIONS,
        ),
    ] = None,
    ica_passes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Passes of ICA at most; default 400 (picard) or 200 (sklearn).",
            rich_help_panel=CONVENTIONS,
        ),
    ] = None,
    ica_seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="ICA fits a space, to see how far they agree.", rich_help_panel=TRUST
        ),
    ] = None,
    ica_rows: Annotated[
        Literal["same", "disjoint"] | None,
        typer.Option(
            help="Fit the ICA of both spaces on the same rows, or on disjoint halves.",
            rich_help_panel=CONVENTIONS,
        ),
    ] = None,
    permutation_cost: Annotated[
        Literal["inner-product", "correlation"] | None,
        typer.Option(help="What the permutation maximises.", rich_help_panel=CONVENTIONS),
    ] = None,
    widths: Annotated[
        Literal["zero-pad", "pca", "refuse"] | None,
        typer.Option(help="What to do where widths differ.", rich_help_panel=CONVENTIONS),
    ] = None,
    diameter_rows: Annotated[
        Literal["judged", "all"] | None,
        typer.Option(
            help="Target rows that set the diameter: those judged, or all.",
            rich_help_panel=CONVENTIONS,
        ),
    ] = None,
    on_mismatch: MismatchOption = "refuse",
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    memory: MemoryOption = "2GiB",
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw the errors into this file (.png, .pdf, .svg).", dir_okay=False
        ),
        WRITTEN,
    ] = None,
    save_maps: Annotated[
        Path | None,
        typer.Option(help="Also save the maps, fitted on all rows, into this folder."),
        WRITTEN,
    ] = None,
    form: FormatOption = None,
    to: OutputOption = None,
) -> None:
    """How far apart are representations of the same inputs, up to which maps?

    Prints the paper's error table: mean error over the diameter of the target, for a signed
    permutation, a rigid map, a linear map and ICA, beside the mean as a baseline, in-sample and
    held-out, with intervals, nulls and ICA efficiency. On a pipe it is CSV.

    Example: repalign compare a.h5 b.h5 > results.csv
    """
    from repalign.core.compute import choose_device, thread_count
    from repalign.workflows.compare.run import compare as run
    from repalign.workflows.machine import Machine, parse_memory

    chosen = output.choose_format(form, to)
    settings = _with_options(
        _preset(paper=paper, quick=quick, audit=audit),
        maps=None if maps is None else tuple(name.strip() for name in maps.split(",")),
        held_out=split,
        n_folds=folds,
        n_null=null,
        n_gaussian=gaussian_null,
        n_bootstrap=bootstrap,
        ica_solver=ica_solver,
        ica_contrast=ica_contrast,
        ica_whitening=ica_whitening,
        ica_max_passes=ica_passes,
        ica_seeds=ica_seeds,
        ica_rows=ica_rows,
        permutation_cost=permutation_cost,
        width_policy=widths,
        both_directions=both or None,
        diameter_rows=diameter_rows,
        on_mismatch=on_mismatch,
        seed=seed,
    )
    talk = talk_of(context)
    with talk.stages("comparing") as on_stage:
        machine = Machine(choose_device(device), parse_memory(memory), on_stage)
        talk.detail(
            f"device {machine.device}, up to {thread_count()} threads, "
            f"{machine.memory_bytes / 2**30:.3g} GiB of working memory"
        )
        result = run(
            *stores,
            against=against,
            ids=None if ids is None else _lines(ids),
            groups=None if groups is None else _lines(groups),
            settings=settings,
            machine=machine,
        )
    output.emit(render(shown_comparison(result), chosen), to)
    for warning in result.warnings:
        talk.warn(warning)
    if plot is not None:
        output.save_figure(result.plot(), plot)
    if save_maps is not None:
        from repalign.workflows.saved_maps import save_result_maps

        for path in save_result_maps(result, save_maps):
            talk.note(f"wrote {path}")


def _preset(*, paper: bool, quick: bool, audit: bool) -> "CompareSettings":
    from repalign.workflows.compare import settings as compare_settings

    if paper + quick + audit > 1:
        raise typer.BadParameter("--paper, --quick and --audit exclude each other")
    if paper:
        return compare_settings.paper_settings()
    if quick:
        return compare_settings.quick_settings()
    if audit:
        return compare_settings.audit_settings()
    return compare_settings.CompareSettings()


def _with_options(settings: "CompareSettings", **options: Any) -> "CompareSettings":
    """Replace what was given on the line; a share or folds that were given stand alone."""
    given = {name: value for name, value in options.items() if value is not None}
    if "held_out" in given and "n_folds" not in given:
        given["n_folds"] = 0
    return replace(settings, **given)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
