"""Options that say who does the work, shared by the commands that can leave one machine."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from repalign.cli.requests import SHOWN

if TYPE_CHECKING:
    from repalign.workflows.engines.opening import Engine

PANEL = "Who does the work"

EngineOption = Annotated[
    Literal["local", "ray"],
    typer.Option(
        "--engine",
        help="local: processes of this machine. ray: tasks of a Ray cluster (extra ray), one "
        "thread each.",
        rich_help_panel=PANEL,
    ),
    SHOWN,
]
RayAddressOption = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        help="With --engine ray: host:port of a running cluster, or auto for the one that this "
        "machine belongs to. Stores and folders must have the same paths on all of its nodes.",
        show_default="a cluster of this machine, for this command alone",
        rich_help_panel=PANEL,
    ),
    SHOWN,
]


@dataclass(frozen=True)
class EngineOptions:
    """Who does the work; no result hangs on it."""

    engine: EngineOption = "local"
    ray_address: RayAddressOption = None

    def chosen(self, workers: int | None) -> "Engine":
        """Return the engine that the line asks for."""
        from repalign.workflows.engines.opening import Engine

        return Engine(self.engine, workers, self.ray_address)
