"""Options that say which view of a model is meant and how its inputs are read."""

from pathlib import Path
from typing import Annotated, Literal

import typer

LayerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--layer",
        "-l",
        help="final, pre-norm, all, a number (0 enters the first block, -1 is the last block's "
        "output, -2 the one before), or a module's name. Repeat it for several views of one pass. "
        "Default: final.",
        show_default=False,
    ),
]
PoolOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pool",
        help="token, mean, last, cls, patch-mean or avg; may be repeated. Default by family: "
        "decoders token, encoders mean, ViTs patch-mean, CNNs avg.",
        show_default=False,
    ),
]
TokensOption = Annotated[
    str,
    typer.Option(
        help="With --pool token, which tokens or patches become rows: all, last, stride:k, "
        "sample:n."
    ),
]
PreprocessOption = Annotated[
    str | None,
    typer.Option(
        help="One preparation of images for both models of a pair: canonical224 (any size), "
        "timm:architecture, hf:repository, or a directory. Default: the model's own.",
        show_default=False,
    ),
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        help="Directory with the tokenizer to use instead of the model's.",
        exists=True,
        file_okay=False,
        show_default=False,
    ),
]
MaxLengthOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Cut texts to so many tokens. Default: the model's positions, at most 2048.",
        show_default=False,
    ),
]
UnitOption = Annotated[
    Literal["line", "paragraph", "file"] | None,
    typer.Option(
        help="What one sample of plain text is. Default: a line of a file, a file of a directory.",
        show_default=False,
    ),
]
ColumnOption = Annotated[
    str | None,
    typer.Option(
        help="Column or field of a table, archive or data set. Default: text, or images.",
        show_default=False,
    ),
]
IdColumnOption = Annotated[
    str | None,
    typer.Option(help="Column with the samples' ids. Default: row numbers.", show_default=False),
]
LimitOption = Annotated[
    int | None, typer.Option(min=1, help="Only the first so many samples.", show_default=False)
]
SampleOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="Only so many samples, chosen at random by --seed.", show_default=False
    ),
]
OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Use only what is on this disk; never the network.")
]
