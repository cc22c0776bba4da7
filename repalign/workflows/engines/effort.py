"""How long the rounds of a comparison take, before they begin, and how far all of them are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repalign.core.ica.starts import FIRST_STARTS
from repalign.workflows.compare.nulls import MAX_NULL_ROWS, MOST_SHUFFLES, NULL_BUDGET
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.shares import LONG_SHARE
from repalign.workflows.compare.spaces import (
    N_HALVES,
    TYPICAL_PASSES,
    affordable_starts,
    halves_have_ica,
)
from repalign.workflows.machine import OnStage

if TYPE_CHECKING:
    from repalign.store.sources.source import EmbeddingSource

# Multiplications in a second of one core: in the products of ICA, and elsewhere (measured).
ICA_RATE, RATE = 4e10, 1e10
# What a start takes however few rows it has.
START_SECONDS = 0.02
STEPS = 1000


@dataclass(frozen=True)
class Stores:
    """The views of a comparison: how many, and the size of the largest.

    Attributes:
        views: How many.
        rows: Rows of each.
        dim: Columns of each.
        pairs: Pairs that are compared; None for all of them.
        value_bytes: Bytes of a value.
    """

    views: int
    rows: int
    dim: int
    pairs: int | None = None
    value_bytes: int = 4

    @property
    def n_pairs(self) -> int:
        """How many pairs are compared."""
        return self.views * (self.views - 1) // 2 if self.pairs is None else self.pairs

    @property
    def view_bytes(self) -> int:
        """Bytes of the rows of a view."""
        return self.rows * self.dim * self.value_bytes


def sizes_of(pairs: "Sequence[tuple[EmbeddingSource, EmbeddingSource]]") -> Stores:
    """Return the sizes of pairs of open sources."""
    views = {(each.name, each.view): each for pair in pairs for each in pair}
    largest = max(views.values(), key=lambda each: each.n_rows * each.dim)
    return Stores(
        views=len(views),
        rows=max(each.n_rows for each in views.values()),
        dim=largest.dim,
        pairs=len(pairs),
        value_bytes=largest.rows.dtype.itemsize,
    )


def space_starts(stores: Stores, settings: CompareSettings) -> int:
    """Return how many starts of ICA a space gets, where the first ones agree."""
    if not settings.has_ica:
        return 0
    affordable = affordable_starts(stores.rows, stores.dim, settings)
    return n_fits(settings) * (settings.starts or min(FIRST_STARTS, affordable))


def n_fits(settings: CompareSettings) -> int:
    """Return how often every map is fitted: on all rows, and without each part of the split."""
    return 1 + (settings.n_folds or bool(settings.held_out))


def expected_seconds(stores: Stores, settings: CompareSettings) -> dict[str, float]:
    """Return by stage, in their order, about how long one core takes for all units of a round.

    Other starts and folds than expected, and slower or faster machines, move it; the
    shares of the rounds are moved less.
    """
    n_rows, dim, n_maps = stores.rows, stores.dim, len(settings.maps)
    directions = 2 if settings.both_directions else 1
    drawn = min(n_rows, MAX_NULL_ROWS)
    shuffle = 2 * drawn * dim**2 * (1 + 2 * n_maps) + 30 * dim**3 * n_fits(settings)
    n_null = MOST_SHUFFLES if settings.n_null is None else settings.n_null
    shuffles: float = n_null * shuffle
    if settings.n_null is None:
        shuffles = min(shuffles, NULL_BUDGET)
    judging = 2 * n_rows * dim**2 * (n_maps + len(settings.measures)) * n_fits(settings)
    pair = (judging + shuffles) / RATE
    searching = TYPICAL_PASSES * _pass(stores) / ICA_RATE
    ica = space_starts(stores, settings) * (START_SECONDS + searching)
    halves = 0 if settings.n_halves == 0 else settings.n_halves or N_HALVES
    if halves_have_ica(n_rows, dim, settings):
        share = 0.5 + 0.25 * (n_fits(settings) - 1)  # of the rows, in-sample and held-out
        ica += halves * (n_fits(settings) * START_SECONDS + share * searching)
    pair += halves * n_rows * dim**2 * n_maps / RATE
    shared = shuffles / RATE if settings.n_null and shuffles > LONG_SHARE else 0.0
    pair -= shared
    return {
        "moments": stores.views * (1 + (halves > 0)) * _pass(stores) / RATE,
        "ICA": stores.views * ica,
        "diameter": stores.views * 14 * 2 * n_rows * dim / RATE,
        "shuffles": stores.n_pairs * directions * shared,
        "pairs": stores.n_pairs * directions * pair,
    }


def _pass(stores: Stores, rows: int | None = None) -> float:
    """Return the multiplications of one pass over rows, such as a step of ICA."""
    return 2.0 * (stores.rows if rows is None else rows) * stores.dim**2


class Course:
    """One progress of all rounds, from what each tells of its own.

    A round tells it by its own name; what else is told names what is being done there. It never
    goes back: a round that takes up an earlier name stays where it is.

    Args:
        on_stage: Hears of it: what is done, and how many of ``STEPS``.
        seconds: How long each round is expected to take, in their order.

    Example:
        >>> course = Course(lambda *told: print(*told), {"ICA": 1.0, "pairs": 3.0})
        >>> course("ICA", 1, 2)
        ICA 125 1000
        >>> course("pairs", 1, 2)
        pairs 625 1000
        >>> course("pairs, errors", 1, 9)
        pairs, errors 625 1000
    """

    def __init__(self, on_stage: OnStage, seconds: Mapping[str, float]) -> None:
        self._on_stage, self._seconds = on_stage, dict(seconds)
        self._all = sum(self._seconds.values()) or 1.0
        self._furthest = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Hear how far a round is, and tell how far all are."""
        if stage in self._seconds:
            names = list(self._seconds)
            before = sum(self._seconds[name] for name in names[: names.index(stage)])
            place = before + self._seconds[stage] * done / max(total, 1)
            self._furthest = max(self._furthest, int(STEPS * place / self._all))
        self._on_stage(stage, self._furthest, STEPS)
