"""Options that say who does the work, shared by the commands that can leave one machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from repalign.cli.inputs import SHOWN

if TYPE_CHECKING:
    from repalign.cli.formats import FormatName
    from repalign.cli.talk import Talk
    from repalign.workflows.engines.costs import Cost
    from repalign.workflows.engines.opening import Engine
    from repalign.workflows.engines.ray_shards import Actors

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
PlanOption = Annotated[
    bool,
    typer.Option(
        "--plan",
        help="Only print what it would take: units, bytes read and sent, memory. Compute nothing "
        "and leave --output alone.",
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


@dataclass(frozen=True)
class ActorOptions:
    """Who makes the shards of an extraction; no row hangs on it."""

    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(
            "--engine",
            help="local: this process, or those of torchrun or Slurm. ray: actors of a Ray "
            "cluster (extra ray), that each load the model and pull shards.",
            rich_help_panel=PANEL,
        ),
    ] = "local"
    ray_address: RayAddressOption = None
    actors: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many load the model.",
            show_default="one for each GPU of the cluster, or where there is none for each "
            "--actor-cpus",
            rich_help_panel=PANEL,
        ),
    ] = None
    actor_cpus: Annotated[
        int,
        typer.Option(
            min=1, help="Processors of each actor, and its threads.", rich_help_panel=PANEL
        ),
    ] = 1
    actor_gpus: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="GPUs of each actor.",
            show_default="1 where the cluster has some",
            rich_help_panel=PANEL,
        ),
    ] = None

    def actors_asked(self) -> "Actors":
        """Return how many actors the line asks for, and what each has."""
        from repalign.workflows.engines.ray_shards import Actors

        return Actors(self.actors, self.actor_cpus, self.actor_gpus, self.ray_address)

    def warn(self, talk: "Talk") -> None:
        """Say what should be known of a connection to a cluster.

        Raises:
            InputError: An address without Ray.
        """
        from repalign.workflows.engines.opening import Engine

        for warning in Engine(self.engine, ray_address=self.ray_address).warnings:
            talk.warn(warning)

    def planned_workers(self) -> int:
        """Return how many actors a plan counts: without Ray or a number, one."""
        return self.actors or 1


def show_plan(costs: "Sequence[Cost]", form: "FormatName | None") -> None:
    """Print a plan to stdout; leave the output file alone."""
    from repalign.cli import output
    from repalign.workflows.tables.formats import shown_records

    chosen = output.choose_format(form, None)
    costs_of = [cost.to_dict() for cost in costs]
    keys = ("quantity", "about", "rule") if chosen == "table" else tuple(costs_of[0])
    output.show(shown_records([{key: each[key] for key in keys} for each in costs_of]), chosen)
