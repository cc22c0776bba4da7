"""Extraction on Ray: one actor for a GPU, or for some processors, that pulls shard after shard.

An actor has one shard at a time and asks for the next when that is committed, so that no more is
held anywhere than what is computed. Stores are what a single process writes: shards are committed
by rename, whoever makes them.
"""

import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError, RepalignError
from repalign.workflows.engines.cluster import cluster_has, connected
from repalign.workflows.engines.ray_tasks import PATIENCE, Workplace
from repalign.workflows.engines.shard_board import Job, Piece, ShardBoard
from repalign.workflows.executor import Done, error_of
from repalign.workflows.extract.portion import Made, Portion
from repalign.workflows.extract.settings import (
    ExtractProgress,
    ExtractResult,
    ExtractSettings,
    Speed,
)

OnExtract = Callable[[ExtractProgress], None]


@dataclass(frozen=True)
class Actors:
    """How many load a model, and what each has.

    Attributes:
        number: How many; None for one for each GPU of the cluster, or where there is none for
            each so many processors.
        cpus: Processors of each, which are its threads too.
        gpus: GPUs of each; None for one where the cluster has some.
        address: Of a running cluster; None starts one on this machine.
    """

    number: int | None = None
    cpus: int = 1
    gpus: int | None = None
    address: str | None = None


class ShardActor:
    """Plans extractions, makes shards of them and finishes them, one model loaded at a time."""

    def __init__(self, place: Workplace) -> None:
        self._place = place
        self._portion: Portion | None = None

    def ready(self) -> Done[str]:
        """Say who this is, once there is a process."""
        try:
            self._place.enter()
        except InputError as failure:
            return Done(failure=(InputError, str(failure)))
        return Done(f"{socket.gethostname()}/{os.getpid()}")

    def do(self, piece: Piece, job: Job) -> Done[Any]:
        """Do a piece of work; an expected failure is sent back as its message."""
        try:
            portion = self._of(job.settings)
            if piece.kind == "plan":
                return Done(portion.plan())
            if piece.kind == "shard":
                return Done(portion.make(piece.number))
            return Done(portion.finish(job.made))
        except RepalignError as failure:
            return Done(failure=(type(failure), str(failure)))

    def _of(self, settings: ExtractSettings) -> Portion:
        if self._portion is None or self._portion.settings != settings:
            if self._portion is not None:
                self._portion.close()
                self._portion = None  # before the next model takes memory
            self._portion = Portion(settings)
        return self._portion


def extract_on_ray(
    wanted: Sequence[ExtractSettings], actors: Actors, on_progress: OnExtract | None = None
) -> list[ExtractResult | RepalignError]:
    """Extract one or many stores; return what came of each, in their order.

    What is committed already is not made again; a checkpoint that cannot be used does not stop
    the others.

    Raises:
        RepalignError: Nothing can be done: no Ray, no cluster, or processes that die again and
            again.
    """
    if any(settings.overwrite for settings in wanted):
        raise InputError("--overwrite with --engine ray: remove the old store first")
    processors = None if actors.number is None else actors.number * actors.cpus
    with connected(actors.address, processors):
        return _Run(wanted, actors, on_progress).outcomes()


class _Run:
    """The loop: idle actors are given work, and what they return is put on the board."""

    def __init__(
        self, wanted: Sequence[ExtractSettings], actors: Actors, on_progress: OnExtract | None
    ) -> None:
        threads = actors.cpus
        self._board = ShardBoard(
            [replace(each, workers=each.workers or threads) for each in wanted]
        )
        self._actors, self._on_progress = actors, on_progress
        self._place = Workplace(str(Path.cwd()), threads)
        self._starting: dict[Any, Any] = {}  # reference → actor
        self._working: dict[Any, tuple[Any, Piece]] = {}
        self._idle: list[Any] = []
        self._names: dict[Any, str] = {}
        self._has: dict[Any, int] = {}
        self._made: dict[str, Made] = {}
        self._lost_starts = 0
        self._started = time.perf_counter()

    def outcomes(self) -> list[ExtractResult | RepalignError]:
        """Do everything."""
        import ray

        for _ in range(self._number()):
            self._start()
        try:
            while not self._board.is_over:
                self._give()
                for reference in self._ready():
                    self._take(reference)
        finally:
            for actor in {*self._names, *self._starting.values()}:
                ray.kill(actor)
        return [_outcome(job) for job in self._board.jobs]

    def _number(self) -> int:
        if self._actors.number is not None:
            return self._actors.number
        gpus = cluster_has("GPU") // max(self._actors.gpus or 1, 1)
        found = gpus if gpus and self._actors.gpus != 0 else cluster_has("CPU") // self._actors.cpus
        return max(int(found), 1)

    def _start(self) -> None:
        import ray

        gpus = self._actors.gpus
        if gpus is None:
            gpus = 1 if cluster_has("GPU") else 0
        kind = ray.remote(ShardActor).options(num_cpus=self._actors.cpus, num_gpus=gpus)
        actor: Any = kind.remote(self._place)
        self._starting[actor.ready.remote()] = actor

    def _give(self) -> None:
        """Give every idle actor a piece of work, where there is one for it."""
        for actor in list(self._idle):
            piece = self._board.give(self._has.get(actor))
            if piece is not None:
                self._idle.remove(actor)
                self._has[actor] = piece.job
                job = replace(self._board.jobs[piece.job], waiting=[])
                self._working[actor.do.remote(piece, job)] = (actor, piece)

    def _ready(self) -> list[Any]:
        import ray

        references = [*self._starting, *self._working]
        ready, _ = ray.wait(references, num_returns=1, timeout=PATIENCE)
        if not ready and not self._working and cluster_has("CPU") < self._actors.cpus:
            raise RepalignError(
                f"the Ray cluster has {cluster_has('CPU'):g} processors left, and an actor needs "
                f"{self._actors.cpus}; add nodes and run the command again, which goes on"
            )
        return list(ready)

    def _take(self, reference: Any) -> None:
        """Take what an actor returned, or hear that it is lost."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            done: Done[Any] = ray.get(reference)
        except RayTaskError:
            raise  # a defect of ours, with its traceback
        except RayError as failure:
            self._hear_lost(reference, failure)
            return
        if reference in self._starting:
            actor = self._starting.pop(reference)
            if done.failure is not None:
                raise error_of(done.failure)
            self._names[actor] = str(done.result)
            self._idle.append(actor)
            return
        actor, piece = self._working.pop(reference)
        self._idle.append(actor)
        result: Any = done.result
        if done.failure is not None:
            self._board.failed(piece, done.failure)
        elif piece.kind == "plan":
            self._board.planned(piece, result)
        elif piece.kind == "shard":
            self._board.made(piece, result)
            name = self._names[actor]
            self._made[name] = self._made.get(name, Made()) + result
            self._tell()
        else:
            self._board.finished(piece, result)

    def _hear_lost(self, reference: Any, failure: Exception) -> None:
        """Put back the work of an actor that is lost, and start another one."""
        if reference in self._starting:
            self._starting.pop(reference)
            self._lost_starts += 1
            is_hopeless = self._lost_starts > 3
        else:
            actor, piece = self._working.pop(reference)
            self._names.pop(actor)
            is_hopeless = not self._board.lost(piece)
        if is_hopeless:
            raise RepalignError(
                "processes of the Ray cluster are lost again and again "
                f"({type(failure).__name__}); look at its nodes and run the command again, which "
                "goes on"
            ) from failure
        self._start()

    def _tell(self) -> None:
        if self._on_progress is None:
            return
        jobs = self._board.jobs
        made = sum((job.made for job in jobs), Made())
        unit = next(job.plan.unit for job in jobs if job.plan is not None)
        workers = {n: Speed(m.n_units, unit, m.seconds) for n, m in self._made.items()}
        self._on_progress(
            ExtractProgress(
                samples_done=made.samples,
                samples_total=sum(job.samples_total for job in jobs),
                rows=made.rows,
                speed=Speed(made.n_units, unit, time.perf_counter() - self._started),
                workers=tuple(sorted(workers.items())),
                stores=(sum(job.is_over for job in jobs), len(jobs)),
            )
        )


def _outcome(job: Job) -> ExtractResult | RepalignError:
    if job.failure is not None:
        return error_of(job.failure)
    assert job.result is not None
    return job.result
