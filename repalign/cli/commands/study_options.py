"""What ``disentangle`` and ``deconfound`` have in common on the line."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repalign.cli.inputs import WRITTEN

if TYPE_CHECKING:
    from repalign.cli.talk import OnStage, Talk
    from repalign.workflows.machine import Machine

ROWS = "Rows"

IdColumnOption = Annotated[
    str | None,
    typer.Option(
        help="Column of ids in the table.", rich_help_panel=ROWS, show_default="id or ids"
    ),
]
IdsOption = Annotated[
    Path | None,
    typer.Option(
        help="File with one id a line, for embeddings that carry none.",
        exists=True,
        rich_help_panel=ROWS,
    ),
]
SaveTransformOption = Annotated[
    Path | None,
    typer.Option(help="Also save the fitted whitening and ICA into this folder."),
    WRITTEN,
]


def machine_of(device: str, memory: str, talk: "Talk", on_stage: "OnStage") -> "Machine":
    """Return what a run may use of the machine, and say it to --verbose."""
    from repalign.core.compute import choose_device, thread_count
    from repalign.workflows.machine import Machine, parse_memory

    machine = Machine(choose_device(device), parse_memory(memory), on_stage)
    talk.detail(
        f"device {machine.device}, up to {thread_count()} threads, "
        f"{machine.memory_bytes / 2**30:.3g} GiB of working memory"
    )
    return machine
