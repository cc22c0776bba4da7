"""``repalign disentangle``."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from repalign.cli import output
from repalign.cli.disentangle_options import (
    BatchOption,
    BinsOption,
    ComponentsOption,
    ConditionsOption,
    ContinuousOption,
    ControlOption,
    DiscreteLatentsOption,
    DiscreteOption,
    FactorOption,
    FactorsOption,
    FitOnOption,
    FoldsOption,
    HalvesOption,
    IcaContrastOption,
    IcaPassesOption,
    IcaSolverOption,
    IdColumnOption,
    IdsOption,
    InfomecOption,
    LabelOption,
    MaxRowsOption,
    NullOption,
    PermutedOption,
    PlotOption,
    ProtocolsOption,
    ResumeOption,
    SaveTransformOption,
    ScoresOption,
    SeedsOption,
    StoresArgument,
    TableOption,
    TopOption,
    WorkersOption,
)
from repalign.cli.formats import render
from repalign.cli.options import (
    FormatOption,
    MismatchOption,
    OutputOption,
    OverwriteOption,
    SeedOption,
)
from repalign.cli.tables import shown_disentanglement
from repalign.cli.talk import talk_of
from repalign.exceptions import InputError

if TYPE_CHECKING:
    from repalign.store.sources.source import EmbeddingSource
    from repalign.workflows.disentangle.results import DisentangleResult
    from repalign.workflows.disentangle.run import OnProgress
    from repalign.workflows.disentangle.settings import BatchSettings, FactorSettings

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".npz")


def disentangle(
    context: typer.Context,
    stores: StoresArgument,
    factors: FactorsOption = None,
    factor: FactorOption = None,
    discrete: DiscreteOption = None,
    continuous: ContinuousOption = None,
    scores: ScoresOption = None,
    infomec: InfomecOption = "standard",
    discrete_latents: DiscreteLatentsOption = False,
    bins: BinsOption = 20,
    seeds: SeedsOption = 1,
    null: NullOption = 10,
    halves: HalvesOption = 20,
    max_rows: MaxRowsOption = 10_000,
    label: LabelOption = None,
    batch: BatchOption = None,
    table: TableOption = None,
    control: ControlOption = None,
    protocols: ProtocolsOption = None,
    folds: FoldsOption = 5,
    top: TopOption = "5,10,25",
    fit_on: FitOnOption = "all",
    permuted: PermutedOption = 1,
    workers: WorkersOption = 1,
    resume: ResumeOption = None,
    conditions: ConditionsOption = None,
    ica_solver: IcaSolverOption = "picard",
    ica_contrast: IcaContrastOption = "logcosh",
    ica_passes: IcaPassesOption = None,
    components: ComponentsOption = None,
    id_column: IdColumnOption = None,
    ids: IdsOption = None,
    on_mismatch: MismatchOption = "refuse",
    seed: SeedOption = 0,
    save_transform: SaveTransformOption = None,
    plot: PlotOption = None,
    overwrite: OverwriteOption = False,
    form: FormatOption = None,
    to: OutputOption = None,
) -> None:
    """Does ICA recover known factors; does a label survive a change of batch?

    With --factors: InfoE, InfoM, InfoC and other disentanglement scores, raw, whitened, after
    ICA and after a random rotation, each with a shuffled-factor null and an interval. With
    --label and --batch: how well the label is told on held-out batches, and on how few features
    that rests. On a pipe it is CSV.

    Example: repalign disentangle latents.h5 --factors factors.csv

    Example: repalign disentangle cells.h5 --table wells.csv --label perturbed --batch plate
    """
    from repalign.workflows.disentangle import settings as choices

    mode = _mode(factors, label, batch)
    chosen = output.choose_format(form, to)
    default = choices.ALL_CONDITIONS if mode == "factors" else choices.BATCH_CONDITIONS
    transform = choices.TransformSettings(
        conditions=_names(conditions) or (("raw",) if discrete_latents else default),
        ica_solver=ica_solver,
        ica_contrast=ica_contrast,
        max_passes=ica_passes,
        components=components,
        seed=seed,
        on_mismatch=on_mismatch,
    )
    inputs = _Inputs(stores, ids, id_column)
    talk = talk_of(context)
    with talk.progress("scoring") as on_progress:
        if mode == "factors":
            factor_settings = choices.FactorSettings(
                transform=transform,
                scores=_groups(scores),
                infomec=infomec,
                discrete_latents=discrete_latents,
                factors=tuple(factor or ()),
                kinds=_kinds(discrete, continuous),
                n_bins=bins,
                max_rows=max_rows,
                n_seeds=seeds,
                n_null=null,
                n_halves=halves,
            )
            result = _with_factors(inputs, str(factors), factor_settings, on_progress)
        else:
            batch_settings = choices.BatchSettings(
                transform=transform,
                protocols=_names(protocols) or ("leave-batches-out",),
                n_folds=folds,
                control=control,
                top_shares=_shares(top),
                fit_on=fit_on,
                n_permuted=permuted,
                workers=workers,
            )
            result = _with_batches(
                inputs,
                table,
                batch_settings,
                labels=label,
                batch=batch,
                resume=resume,
                on_progress=on_progress,
            )
    output.emit(render(shown_disentanglement(result), chosen), to)
    for warning in result.warnings:
        talk.warn(warning)
    if plot is not None:
        output.save_figure(result.plot(), plot)
    if save_transform is not None:
        from repalign.workflows.disentangle.transforms import save_transforms

        for path in save_transforms(result, save_transform, overwrite=overwrite):
            talk.note(f"wrote {path}")


def _mode(factors: str | None, label: list[str] | None, batch: str | None) -> str:
    if factors is not None and not label and batch is None:
        return "factors"
    if factors is None and label and batch is not None:
        return "batches"
    raise typer.BadParameter("give --factors, or both --label and --batch")


@dataclass(frozen=True)
class _Inputs:
    """What stands on the line about files."""

    stores: list[str]
    ids: Path | None
    id_column: str | None

    def sources(self, *, with_own_columns: bool = False) -> "list[EmbeddingSource]":
        """Open the embeddings; their own file may be the table that the id column is of."""
        from repalign.store.sources.opening import open_embeddings

        column = self.id_column if with_own_columns else None
        return [open_embeddings(store, ids=self.ids, id_column=column) for store in self.stores]


def _with_factors(
    inputs: _Inputs, factors: str, settings: "FactorSettings", on_progress: "OnProgress"
) -> "DisentangleResult":
    from repalign.workflows.columns import open_columns
    from repalign.workflows.disentangle.run import disentangle as run

    columns = open_columns(factors, id_column=inputs.id_column)
    return run(inputs.sources(), columns, settings=settings, on_progress=on_progress)


def _with_batches(
    inputs: _Inputs, table: Path | None, settings: "BatchSettings", **asked: Any
) -> "DisentangleResult":
    from repalign.workflows.columns import open_columns
    from repalign.workflows.deconfound.run import deconfound

    if len(inputs.stores) != 1:
        raise InputError(
            f"{len(inputs.stores)} sets of embeddings with --label; expected one: run each alone"
        )
    store = Path(inputs.stores[0])
    if table is None and store.suffix.lower() not in TABLE_SUFFIXES:
        raise InputError(
            f"{store}: holds no columns of labels and batches; give the table that does (--table)"
        )
    source = inputs.sources(with_own_columns=table is None)[0]
    columns = open_columns(table or store, id_column=inputs.id_column)
    return deconfound(source, columns, settings=settings, **asked)


def _groups(scores: str | None) -> tuple[str, ...]:
    from repalign.core.factors.kinds import GROUP_NAMES
    from repalign.core.factors.scores import check_groups

    if scores is None:
        return ()
    if scores.strip() == "all":
        return GROUP_NAMES
    return check_groups(_names(scores))


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _kinds(discrete: list[str] | None, continuous: list[str] | None) -> dict[str, str]:
    twice = set(discrete or ()) & set(continuous or ())
    if twice:
        raise InputError(f"factor {min(twice)} is declared discrete and continuous; choose one")
    kinds = dict.fromkeys(discrete or (), "discrete")
    return kinds | dict.fromkeys(continuous or (), "continuous")


def _shares(percentages: str) -> tuple[float, ...]:
    try:
        return tuple(float(text) / 100 for text in percentages.split(",") if text.strip())
    except ValueError as error:
        raise InputError(
            f"--top {percentages}: expected percentages separated by commas, such as 5,10,25"
        ) from error
