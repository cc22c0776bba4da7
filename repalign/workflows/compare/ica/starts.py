"""The ICA of spaces: every start a unit of work, and how many starts a space gets.

Starts are made in rounds. What the first ones say of each other decides whether more are made,
so that the number hangs on the space alone, never on who computes or on what else is computed.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from repalign.aliases import FloatArray, Rows
from repalign.core.ica.components import IcaFit
from repalign.core.ica.settings import WHITENED_BYTES
from repalign.core.ica.starts import (
    AGREEMENT,
    FIRST_STARTS,
    MORE_STARTS,
    best_starts,
    start_agreement,
)
from repalign.core.inference.splits import Split
from repalign.core.maps.affine import AffineMap, MappedRows
from repalign.core.moments import PairMoments, space_moments
from repalign.core.rows import SubsetRows
from repalign.core.thread_choice import is_small, one_thread_if
from repalign.exceptions import InputError
from repalign.workflows.compare.aligned import Space
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.spaces import (
    IcaRows,
    SpaceIca,
    affordable_starts,
    start_seed,
)
from repalign.workflows.executor import Executor
from repalign.workflows.machine import Machine

if TYPE_CHECKING:
    from repalign.core.ica.fit import Prepared


@dataclass(frozen=True, eq=False)
class IcaOfSpace:
    """What is to be fitted: the ICA of a space on some of its rows, from some starts.

    Attributes:
        key: Name of the work.
        space: The space.
        split: How its rows are split.
        on: Which of them are used.
        cut: Onto fewer columns first; None for all.
        moments: Of the rows without the part left out, after the cut.
        settings: Conventions.
        side: What the space is called in messages: source or target.
    """

    key: str
    space: Space
    split: Split
    on: IcaRows
    cut: AffineMap | None
    moments: PairMoments
    settings: CompareSettings
    side: str

    @property
    def n_rows(self) -> int:
        """Number of rows that are fitted, or of which some are."""
        chosen = self.on.of(self.split)
        return self.space.n_rows if chosen is None else chosen.size

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the rows without the part left out."""
        return self.moments.sxx / self.moments.n

    def next_starts(self, made: Sequence[IcaFit]) -> "list[StartUnit]":
        """Return the starts to make after those made: none where these are enough."""
        wanted = self.settings.starts or self._enough(made)
        return [StartUnit(self, number) for number in range(len(made), wanted)]

    def _enough(self, made: Sequence[IcaFit]) -> int:
        affordable = affordable_starts(self.n_rows, self.moments.source_dim, self.settings)
        if len(made) < FIRST_STARTS:
            return min(FIRST_STARTS, affordable)
        if len(made) > FIRST_STARTS or affordable < MORE_STARTS:
            return len(made)
        agreement = start_agreement(made, self.covariance)
        assert agreement is not None
        return FIRST_STARTS if agreement >= AGREEMENT else MORE_STARTS

    def choose(self, made: Sequence[IcaFit]) -> SpaceIca:
        """Return the starts that are kept: both of two that agree, else the better half."""
        agreement = start_agreement(made, self.covariance)
        if self.settings.starts is None and len(made) == FIRST_STARTS:
            return SpaceIca(self.key, best_starts(made, len(made)), len(made), agreement)
        kept = best_starts(made, (len(made) + 1) // 2)
        return SpaceIca(self.key, kept, len(made), start_agreement(kept, self.covariance))

    def prepare(self, machine: Machine) -> "Prepared":
        """Whiten the rows, for all starts."""
        from repalign.core.ica.fit import prepare

        rows, moments = self._fitting(machine)
        # the seed of the first start chooses the rows of all
        seed = start_seed(self.settings.seed, self.space.source.fingerprint)
        return prepare(
            rows,
            mean=moments.mean_x,
            covariance=moments.sxx / moments.n,
            settings=replace(self.settings.ica, start="random", seed=seed),
            memory_bytes=machine.memory_bytes,
            device=machine.device,
        )

    def _fitting(self, machine: Machine) -> tuple[Rows, PairMoments]:
        """Return the rows to fit on, and their moments."""
        rows: Rows = self.space.rows if self.cut is None else MappedRows(self.space.rows, self.cut)
        chosen = self.on.of(self.split)
        rows = rows if chosen is None else SubsetRows(rows, chosen)
        if self.on.half is None:
            return rows, self.moments
        # Not those of all rows: what is white on all rows is not white on half of them.
        (moments,) = space_moments(rows, **machine.limits("moments"))
        return rows, moments


@dataclass(frozen=True, eq=False)
class StartUnit:
    """One start of the ICA of a space."""

    ica: IcaOfSpace
    number: int
    stage = "ICA"

    @property
    def key(self) -> str:
        """Name of the work."""
        return f"{self.ica.key}-{self.number}"

    def lanes(self, machine: Machine) -> int:
        """Return how many starts of this size are best searched at once: one a thread.

        Between its products a search does much that only one thread can do. Beyond that a start
        with a thread of its own ends at the same rotation on one core as on two.
        """
        ica = self.ica
        is_small_search = is_small(ica.space.n_rows, ica.space.dim)
        if machine.device != "cpu" or is_small_search or ica.settings.ica.solver == "sklearn":
            return 1
        import torch

        room = machine.memory_bytes // 2 // (WHITENED_BYTES * ica.n_rows * ica.space.dim)
        return max(min(torch.get_num_threads(), room), 1)

    def run(self, machine: Machine) -> IcaFit:
        """Fit it.

        Raises:
            InputError: These rows cannot be unmixed.
        """
        import repalign.core.ica.fit  # noqa: F401  torch, before its threads are held

        ica = self.ica
        with one_thread_if(is_small(ica.space.n_rows, ica.space.dim)):
            seed = start_seed(ica.settings.seed, ica.space.source.fingerprint, self.number)
            try:
                with _LAST.rows(ica, machine) as prepared:
                    return prepared.fit(seed, machine.on_progress("ICA"))
            except InputError as failure:
                raise InputError(
                    f"ICA of the {ica.side} on {ica.n_rows} rows: {failure}, or leave ICA out "
                    "(--maps mean,permutation,rigid,linear)"
                ) from failure


class _Whitened:
    """The rows of one space, whitened by the first who needs them."""

    def __init__(self) -> None:
        self.n_users = 0
        self._lock = threading.Lock()
        self._prepared: Prepared | None = None

    def get(self, ica: IcaOfSpace, machine: Machine) -> "Prepared":
        """Return them; whoever comes while they are made waits."""
        with self._lock:
            if self._prepared is None:
                self._prepared = ica.prepare(machine)
            return self._prepared


class _LastWhitened:
    """The spaces that starts are searched in, or were last: the next is mostly of the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str, int], _Whitened] = {}

    @contextlib.contextmanager
    def rows(self, ica: IcaOfSpace, machine: Machine) -> "Iterator[Prepared]":
        """Hold the rows of a space inside the block, and then until another is asked for."""
        key = (ica.key, machine.device, machine.memory_bytes)
        with self._lock:
            if key not in self._held:  # the idle ones go before the next ones take memory
                self._held = {name: it for name, it in self._held.items() if it.n_users}
            space = self._held.setdefault(key, _Whitened())
            space.n_users += 1
        try:
            yield space.get(ica, machine)
        finally:
            with self._lock:
                space.n_users -= 1

    def forget(self) -> None:
        """Let the rows go."""
        self._held = {}


_LAST = _LastWhitened()
forget_whitened = _LAST.forget
"""Let the rows go that this process whitened last."""


def make_starts(
    wanted: Mapping[str, IcaOfSpace],
    executor: Executor,
    machine: Machine,
) -> dict[str, list[IcaFit]]:
    """Return the starts of every space by key, those of all of them done together."""
    starts: dict[str, list[IcaFit]] = {key: [] for key in wanted}
    while units := [unit for key, ica in wanted.items() for unit in ica.next_starts(starts[key])]:
        for unit, fit in zip(units, executor.map(units, machine), strict=True):
            starts[unit.ica.key].append(fit)
    return starts


def choose_starts(
    wanted: Mapping[str, IcaOfSpace], made: Mapping[str, Sequence[IcaFit]]
) -> dict[str, SpaceIca]:
    """Return the ICA of every space by key."""
    return {key: ica.choose(made[key]) for key, ica in wanted.items()}
