"""An executor that does only what was not done before, and keeps what it does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from repalign.workflows.executor import Executor, Parallel, Unit
from repalign.workflows.machine import Machine
from repalign.workflows.study.cache import WorkCache, full_key

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Kept(Generic[T]):
    """A unit whose result is kept by whoever computes it, as soon as it is there."""

    unit: Unit[T]
    cache: WorkCache

    @property
    def key(self) -> str:
        """Name of the work."""
        return self.unit.key

    @property
    def stage(self) -> str:
        """What it is called while people wait for it."""
        return self.unit.stage

    def lanes(self, machine: Machine) -> int:
        """Return how many like it are best done at once."""
        return self.unit.lanes(machine) if isinstance(self.unit, Parallel) else 1

    def run(self, machine: Machine) -> T:
        """Do it and keep it, unless another run, or one that was lost on its way, did so."""
        key = full_key(self.key, machine)
        result = self.cache.get(key)
        if result is None:
            result = self.unit.run(machine)
            self.cache.put(key, result)
        return result


class Remembering:
    """Does units by another executor, but for those that the cache holds.

    Attributes:
        n_found: Units that were found.
        n_done: Units that were computed.
    """

    def __init__(self, executor: Executor, cache: WorkCache) -> None:
        self._executor, self._cache = executor, cache
        self.n_found = self.n_done = 0

    def map(self, units: Sequence[Unit[T]], machine: Machine) -> list[T]:
        """Return the result of every unit."""
        found: dict[int, Any] = {}
        for number, unit in enumerate(units):
            known = self.known(unit.key, machine)
            if known is not None:
                found[number] = known
        rest = [number for number in range(len(units)) if number not in found]
        made = self._executor.map([Kept(units[number], self._cache) for number in rest], machine)
        self.n_done += len(rest)
        found |= dict(zip(rest, made, strict=True))
        return [found[number] for number in range(len(units))]

    def known(self, key: str, machine: Machine) -> Any | None:
        """Return the result of a unit that was done before, or None."""
        result = self._cache.get(full_key(key, machine))
        self.n_found += result is not None
        return result
