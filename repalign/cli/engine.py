"""Options that say who does the work, shared by the commands that can leave one machine."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from repalign.cli.inputs import SHOWN

if TYPE_CHECKING:
    from repalign.cli.talk import Talk
    from repalign.engine.cache import Cache
    from repalign.engine.engine import Engine
    from repalign.engine.ray import RayEngine

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
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Processes that share the work out, each with one thread and the memory cap; 1 is "
        "this one, with all its threads.",
        show_default="1; with --engine ray all processors of the cluster",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True)
class EngineOptions:
    """Where the work is done; no result depends on it."""

    engine: EngineOption = "local"
    ray_address: RayAddressOption = None

    def chosen(self, workers: int | None, cache: "Cache | None" = None) -> "Engine":
        """Return the engine that the line asks for."""
        from repalign.engine.opening import choose_engine

        return choose_engine(self.engine, workers, self.ray_address, cache)

    def warn(self, talk: "Talk") -> None:
        """Say what should be known of a connection to a cluster."""
        from repalign.engine.opening import address_warnings

        for warning in address_warnings(self.ray_address):
            talk.warn(warning)


@dataclass(frozen=True)
class ActorOptions:
    """Where the shards of an extraction are made; no row depends on it."""

    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(
            "--engine",
            help="local: this process, or those of torchrun or Slurm. ray: processes of a Ray "
            "cluster (extra ray), which each load the model and make shards.",
            rich_help_panel=PANEL,
        ),
    ] = "local"
    ray_address: RayAddressOption = None
    actors: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes that load the model at the same time.",
            show_default="one for each GPU of the cluster, or where there is none for each "
            "--actor-cpus",
            rich_help_panel=PANEL,
        ),
    ] = None
    actor_cpus: Annotated[
        int,
        typer.Option(
            min=1,
            help="Processors of each of these processes, and its threads.",
            rich_help_panel=PANEL,
        ),
    ] = 1
    actor_gpus: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="GPUs of each of these processes.",
            show_default="1 where the cluster has some",
            rich_help_panel=PANEL,
        ),
    ] = None

    def ray(self) -> "RayEngine":
        """Return the cluster that the line asks for."""
        from repalign.engine.ray import RayEngine

        return RayEngine(
            self.actors, address=self.ray_address, threads=self.actor_cpus, gpus=self.actor_gpus
        )

    def warn(self, talk: "Talk") -> None:
        """Say what should be known of a connection to a cluster.

        Raises:
            InputError: An address without Ray.
        """
        from repalign.engine.opening import address_warnings, choose_engine

        choose_engine(self.engine, ray_address=self.ray_address)
        for warning in address_warnings(self.ray_address):
            talk.warn(warning)
