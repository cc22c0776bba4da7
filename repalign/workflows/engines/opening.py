"""Which executor does the units: this process, a pool of processes, or Ray."""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from repalign.exceptions import InputError
from repalign.workflows.executor import Executor, InProcess, ProcessPool

EngineName = Literal["local", "ray"]


@dataclass(frozen=True)
class Engine:
    """Where work is done.

    Attributes:
        name: ``local`` for this machine's processes, ``ray`` for a cluster of Ray.
        workers: How many units at the same time; None for one locally, and for as many as there
            are processors with Ray.
        ray_address: Of a running cluster; None starts one on this machine.
    """

    name: EngineName = "local"
    workers: int | None = None
    ray_address: str | None = None

    def __post_init__(self) -> None:
        if self.name not in ("local", "ray"):
            raise InputError(f"engine: got {self.name!r}, expected local or ray")
        if self.name == "local" and self.ray_address is not None:
            raise InputError("--ray-address is of --engine ray; add it, or leave the address out")

        if self.workers is not None and self.workers < 1:
            raise InputError(f"workers: got {self.workers}, expected at least 1")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people should know before they connect to a cluster that is not theirs alone."""
        if self.ray_address is None:
            return ()
        return (
            f"whoever reaches a Ray cluster can run code on it: keep {self.ray_address} inside a "
            "network that you trust, with token authentication (RAY_AUTH_MODE=token)",
        )

    @property
    def is_elsewhere(self) -> bool:
        """Whether others than this process do the work."""
        return self.name == "ray" or (self.workers or 1) > 1

    def expected_workers(self) -> int:
        """Return how many workers a plan counts: with Ray and no number, one a processor here."""
        if self.workers is not None or self.name == "local":
            return self.workers or 1
        return os.cpu_count() or 1

    def open(self) -> AbstractContextManager[Executor]:
        """Return the executor; use it in a ``with`` block.

        Raises:
            MissingExtraError: Ray is asked for and not installed.
        """
        if self.name == "ray":
            from repalign.workflows.engines.ray_tasks import RayTasks

            return RayTasks(self.workers, address=self.ray_address)
        if self.is_elsewhere:
            assert self.workers is not None
            return ProcessPool(self.workers)
        return InProcess()
