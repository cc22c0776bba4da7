"""Options of ``repalign disentangle``, by what they are about."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from repalign.cli.inputs import WRITTEN
from repalign.store.foreign.formats import SUFFIX_LIST

FACTORS = "Factors"
BATCHES = "Labels and batches"
CONVENTIONS = "Conventions"

StoresArgument = Annotated[
    list[str],
    typer.Argument(
        help=f"A set of embeddings: a store, or a foreign file ({SUFFIX_LIST}); file::view "
        "chooses a view. With --factors, several of them."
    ),
]
FactorsOption = Annotated[
    str | None,
    typer.Option(
        help="Ground-truth factors, a column each: .csv, .tsv, .parquet, .npz, or store.h5::view.",
        rich_help_panel=FACTORS,
    ),
]
FactorOption = Annotated[
    list[str] | None,
    typer.Option(help="Take this column only; repeatable.", rich_help_panel=FACTORS),
]
DiscreteOption = Annotated[
    list[str] | None,
    typer.Option(help="Take this factor as classes; repeatable.", rich_help_panel=FACTORS),
]
ContinuousOption = Annotated[
    list[str] | None,
    typer.Option(help="Take this factor as a number; repeatable.", rich_help_panel=FACTORS),
]
ScoresOption = Annotated[
    str | None,
    typer.Option(
        help="Score groups, separated by commas, or 'all': infomec, gaps, mcc, r2, mig, "
        "modularity, sap, explicitness, dci. Default: all but the last three, which train "
        "predictors (dci takes minutes).",
        rich_help_panel=FACTORS,
    ),
]
InfomecOption = Annotated[
    Literal["standard", "reference", "training"],
    typer.Option(
        help="standard: k=10, range/20, latents without information left out; reference: the "
        "same, undefined then; training: k=3, range/8.",
        rich_help_panel=FACTORS,
    ),
]
DiscreteLatentsOption = Annotated[
    bool,
    typer.Option(
        "--discrete-latents", help="The latents are codes: raw only.", rich_help_panel=FACTORS
    ),
]
BinsOption = Annotated[
    int,
    typer.Option(
        min=2, help="Bins of equal frequency for continuous factors.", rich_help_panel=FACTORS
    ),
]
SeedsOption = Annotated[
    int,
    typer.Option(
        min=1, help="Repetitions of what is random in a condition.", rich_help_panel=FACTORS
    ),
]
NullOption = Annotated[
    int,
    typer.Option(min=0, help="Rounds with shuffled factors.", rich_help_panel=FACTORS),
]
HalvesOption = Annotated[
    int,
    typer.Option(min=0, help="Half-samples behind the intervals.", rich_help_panel=FACTORS),
]
MaxRowsOption = Annotated[
    int,
    typer.Option(min=0, help="Rows drawn and scored; 0 for all.", rich_help_panel=FACTORS),
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of labels to tell on held-out batches; repeatable.",
        rich_help_panel=BATCHES,
    ),
]
BatchOption = Annotated[
    str | None,
    typer.Option(help="Column of batches (plates, sites).", rich_help_panel=BATCHES),
]
TableOption = Annotated[
    Path | None,
    typer.Option(
        help="Table with the label and batch columns; default: the embeddings' own file, "
        "where it is a table.",
        rich_help_panel=BATCHES,
    ),
]
ControlOption = Annotated[
    str | None,
    typer.Option(
        help="Value of a label column against which every other value is judged.",
        rich_help_panel=BATCHES,
    ),
]
ProtocolsOption = Annotated[
    str | None,
    typer.Option(
        help="leave-batches-out (the default), train-on-one (train on one batch, test on all "
        "others), or both, separated by a comma.",
        rich_help_panel=BATCHES,
    ),
]
FoldsOption = Annotated[int, typer.Option(min=2, help="Folds of batches.", rich_help_panel=BATCHES)]
TopOption = Annotated[
    str,
    typer.Option(
        help="Percentages of the features for the concentration, separated by commas.",
        rich_help_panel=BATCHES,
    ),
]
FitOnOption = Annotated[
    Literal["all", "train"],
    typer.Option(
        help="Fit whitening and ICA on all rows (the paper; no label is seen) or on the "
        "training rows of each fold.",
        rich_help_panel=BATCHES,
    ),
]
PermutedOption = Annotated[
    int,
    typer.Option(
        min=0, help="Rounds with labels permuted within batches.", rich_help_panel=BATCHES
    ),
]
WorkersOption = Annotated[
    int, typer.Option(min=1, help="Folds side by side.", rich_help_panel=BATCHES)
]
ResumeOption = Annotated[
    Path | None,
    typer.Option(
        help="Keep finished folds in this file and compute the missing ones only.",
        rich_help_panel=BATCHES,
        dir_okay=False,
    ),
    WRITTEN,
]
ConditionsOption = Annotated[
    str | None,
    typer.Option(
        help="Some of raw, pca, pca+ica, pca+rotation, ica (without whitening), separated by "
        "commas. Default: all; for batches all but ica.",
        rich_help_panel=CONVENTIONS,
    ),
]
IcaSolverOption = Annotated[
    Literal["picard", "sklearn"],
    typer.Option(
        help="picard converges; sklearn is FastICA with its defaults, as in the paper.",
        rich_help_panel=CONVENTIONS,
    ),
]
IcaContrastOption = Annotated[
    Literal["logcosh", "exp", "cube"],
    typer.Option(help="Nonlinearity of ICA.", rich_help_panel=CONVENTIONS),
]
IcaPassesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Passes of ICA at most; by default 400 (picard) or 200 (sklearn).",
        rich_help_panel=CONVENTIONS,
    ),
]
ComponentsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Leading principal directions kept by whitened conditions; default: all.",
        rich_help_panel=CONVENTIONS,
    ),
]
IdColumnOption = Annotated[
    str | None,
    typer.Option(help="Column of ids in the table; default: id.", rich_help_panel=CONVENTIONS),
]
IdsOption = Annotated[
    Path | None,
    typer.Option(
        help="File with one id a line, for embeddings that carry none.",
        exists=True,
        rich_help_panel=CONVENTIONS,
    ),
]
SaveTransformOption = Annotated[
    Path | None,
    typer.Option(help="Also save the fitted whitening and ICA into this folder."),
    WRITTEN,
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        help="With --factors: also draw what latents know of factors into this file.",
        dir_okay=False,
    ),
    WRITTEN,
]
