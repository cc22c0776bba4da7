"""What ``disentangle`` and ``deconfound`` have in common on the line, and what they do with it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repalign.cli import output
from repalign.cli.inputs import WRITTEN
from repalign.cli.options import (
    FormatOption,
    MachineDeviceOption,
    MemoryOption,
    OutputOption,
    OverwriteOption,
)
from repalign.printable import byte_size
from repalign.tables.formats import Shown

if TYPE_CHECKING:
    from repalign.cli.talk import OnStage, Talk
    from repalign.engine.machine import Machine

ROWS = "Rows"

IdColumnOption = Annotated[
    str | None,
    typer.Option(
        help="Column of ids in the table.",
        rich_help_panel=ROWS,
        show_default="id, ids or sample_id",
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


@dataclass(frozen=True)
class StudyOptions:
    """Rows, machine and outputs of a study."""

    id_column: IdColumnOption = None
    ids: IdsOption = None
    device: MachineDeviceOption = "auto"
    memory: MemoryOption = "2GiB"
    save_transform: SaveTransformOption = None
    overwrite: OverwriteOption = False
    form: FormatOption = None
    to: OutputOption = None

    def check_outputs(self) -> str:
        """Check, before anything is computed, that all can be written; return the format."""
        from repalign.conditions.saved import check_folder

        chosen = output.choose_format(self.form, self.to)
        if self.save_transform is not None:
            check_folder(self.save_transform, overwrite=self.overwrite)
        return chosen

    def machine(self, talk: "Talk", on_stage: "OnStage") -> "Machine":
        """Return what a run may use of the machine, and say it to --verbose."""
        from repalign.core.device import choose_device, thread_count
        from repalign.engine.machine import Machine, parse_memory

        machine = Machine(choose_device(self.device), parse_memory(self.memory), on_stage)
        talk.detail(
            f"device {machine.device}, up to {thread_count()} threads, "
            f"{byte_size(machine.memory_bytes)} of working memory"
        )
        return machine

    def show(self, result: Any, shown: Shown, chosen: str, talk: "Talk") -> None:
        """Print a result in the format chosen, its warnings, and save what was fitted."""
        from repalign.conditions.saved import save_transforms

        output.show(shown, chosen, self.to, talk)
        for warning in result.warnings:
            talk.warn(warning)
        if self.save_transform is not None:
            for path in save_transforms(
                result.transforms,
                self.save_transform,
                settings=result.settings,
                overwrite=self.overwrite,
            ):
                talk.note(f"wrote {path}")
