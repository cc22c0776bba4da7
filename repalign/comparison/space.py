"""What depends on one view alone, whatever it is compared with: moments, scale and ICA.

All is computed once for all pairs of a view. Seeds follow from content.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

import numpy as np

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.comparison.pairs import Pair
from repalign.comparison.settings import CompareSettings
from repalign.comparison.views import View
from repalign.core.affine import AffineMap, MappedRows
from repalign.core.device import is_small, one_thread_if
from repalign.core.ica.components import (
    AGREEMENT,
    FIRST_STARTS,
    MORE_STARTS,
    IcaFit,
    best_starts,
    start_agreement,
)
from repalign.core.ica.settings import WHITENED_BYTES
from repalign.core.linalg import fit_whitening
from repalign.core.moments import PairMoments, leave_one_out, merge_all, space_moments
from repalign.core.resampling.groups import Split
from repalign.core.rows import SubsetRows
from repalign.core.scale import Diameter, diameter, quantile_diameter
from repalign.engine.cache import cache_key
from repalign.engine.engine import Engine
from repalign.engine.machine import Machine
from repalign.exceptions import InputError

if TYPE_CHECKING:
    from repalign.comparison.pair import PairTask

SIDES = ("source", "target")

# Multiplications that the starts of one space may take unless a number is asked for: some ten
# seconds on two cores.
START_BUDGET = 5e11
TYPICAL_PASSES = 150


@dataclass(frozen=True)
class IcaRows:
    """Which rows of a view an ICA is fitted on.

    Attributes:
        part: The part of the split that is left out to judge; None for none.
        half: Which half of the groups of the others, where the two sides use disjoint ones.
        only: The parts that it is fitted on, instead of all but one.
    """

    part: int | None = None
    half: int | None = None
    only: tuple[int, ...] = ()

    def numbers(self, split: Split) -> IntArray | None:
        """Return the numbers of these rows; None for all."""
        if self.only:
            return split.rows_of(self.only)
        if self.part is None:
            return None
        if self.half is None:
            return split.fitting_rows(self.part)
        assert split.half_of_row is not None
        return np.flatnonzero((split.part_of_row != self.part) & (split.half_of_row == self.half))


def ica_rows(pair: Pair, side: int, part: int | None) -> IcaRows:
    """Return the rows on which one side fits its ICA where a part is left out.

    In-sample both sides see the same rows, as in the paper; held-out disjoint halves of the others,
    so that nothing that they share is the noise of the same rows.
    """
    return IcaRows(part, side if part is not None and pair.has_halves(part) else None)


@dataclass(frozen=True, eq=False)
class SpaceIca:
    """The ICA of a view from several independent starts.

    Attributes:
        fits: The starts that are used, the best contrast first.
        n_starts: Starts that were made.
        agreement: Mean matched |correlation| of the best with the others; None of one.
    """

    fits: tuple[IcaFit, ...]
    n_starts: int
    agreement: float | None

    @property
    def fit(self) -> IcaFit:
        """The start of best contrast, of which maps are saved."""
        return self.fits[0]


@dataclass(frozen=True, eq=False)
class Scale:
    """Denominators of errors in one space: the diameter, and two that no outlier sets."""

    diameter: Diameter
    diameter_99: float
    rms_radius: float = float("nan")


@dataclass(frozen=True, eq=False)
class Space:
    """What a pair takes from one of its views.

    Attributes:
        moments: Of every part of the split.
        bundles: Moments of every bundle of the groups; none where ICA does not need them.
        scale: Diameter and 99 % distance of the rows; None where no error is divided by them.
        ica: By the rows on which it is fitted.
    """

    moments: tuple[PairMoments, ...]
    bundles: tuple[PairMoments, ...] = ()
    scale: Scale | None = None
    ica: Mapping[IcaRows, SpaceIca] = field(default_factory=dict)


# A view whose rows are in parts, under the name of the moments of these.
Parted = tuple[str, View, Split]


def moments_key(view: View, pair: Pair) -> str:
    """Return the name of the moments of a view in the parts of the split of a pair."""
    return cache_key("moments", view.key, pair.split_key)


def compute_moments(machine: Machine, parted: Parted, keeps_rows: bool) -> tuple[PairMoments, ...]:
    """Return the moments of every part of a view; its rows may stay in memory."""
    _, view, split = parted
    with one_thread_if(is_small(view.n_rows, view.dim)):
        rows = view.loaded(view.dim, machine) if keeps_rows else view.rows
        return space_moments(
            rows,
            part_of_row=split.part_of_row,
            n_parts=split.n_parts,
            **machine.limits("moments"),
        )


def compute_scale(machine: Machine, view: View, seed: int) -> Scale:
    """Return how far apart the rows of a view are; they may stay in memory, since pairs follow."""
    with one_thread_if(is_small(view.n_rows, view.dim)):
        return scale_of_rows(view.loaded(view.dim, machine), seed, machine)


def scale_of_rows(rows: Rows, seed: int, machine: Machine) -> Scale:
    """Return how far apart some rows are."""
    return Scale(diameter(rows, **machine.limits("diameter")), quantile_diameter(rows, seed=seed))


@dataclass(frozen=True, eq=False)
class IcaTask:
    """The ICA of one view on some of its rows.

    Attributes:
        moments: Name of the moments of the parts of the view.
        view: The view.
        split: Its parts.
        on: The rows that are fitted.
        width: The number of leading principal components that are kept; None for all.
        settings: Conventions.
        side: What the view is called in messages: source or target.
    """

    moments: str
    view: View
    split: Split
    on: IcaRows
    width: int | None
    settings: CompareSettings
    side: str

    @cached_property
    def key(self) -> str:
        """Name of the ICA."""
        settings = self.settings
        how = (asdict(settings.ica), settings.starts, settings.seed)
        return cache_key("ica", self.moments, asdict(self.on), self.width, how)

    @cached_property
    def n_rows(self) -> int:
        """Number of rows that are fitted, or of which some are."""
        numbers = self.on.numbers(self.split)
        return self.view.n_rows if numbers is None else numbers.size


def ica_lanes(task: IcaTask, machine: Machine) -> int:
    """Return how many fits of this size are best run at once: one a thread.

    Between its products a search does much that only one thread can do. Beyond that a fit with a
    thread of its own ends at the same rotation on one core as on two.
    """
    view = task.view
    if machine.device != "cpu" or is_small(view.n_rows, view.dim):
        return 1
    if task.settings.ica.solver == "sklearn":
        return 1
    import torch

    room = machine.memory_bytes // 2 // (WHITENED_BYTES * task.n_rows * view.dim)
    return max(min(torch.get_num_threads(), room), 1)


def fit_ica(machine: Machine, task: IcaTask, parts: tuple[PairMoments, ...]) -> SpaceIca:
    """Fit the ICA of a view from as many starts as its settings, size and first starts ask for.

    Raises:
        InputError: These rows cannot be unmixed.
    """
    import repalign.core.ica.fit as ica_fit  # torch, before its threads are held

    settings, view = task.settings, task.view
    with one_thread_if(is_small(view.n_rows, view.dim)):
        rows, total = _rows_of_task(task, parts)
        moments, covariance = total, total.sxx / total.n
        if task.on.half is not None:
            # Not those of all rows: what is white on all rows is not white on half of them.
            (moments,) = space_moments(rows, **machine.limits("moments"))
        seed, content = settings.seed, view.source.fingerprint
        try:
            prepared = ica_fit.prepare(
                rows,
                mean=moments.mean_x,
                covariance=moments.sxx / moments.n,
                # the seed of the first start chooses the rows of all
                settings=replace(settings.ica, start="random", seed=start_seed(seed, content)),
                memory_bytes=machine.memory_bytes,
                device=machine.device,
            )
            fits: list[IcaFit] = []
            while len(fits) < n_starts_wanted(task, fits, covariance):
                start = start_seed(seed, content, len(fits))
                fits.append(prepared.fit(start, machine.on_progress("ICA")))
        except InputError as failure:
            raise InputError(
                f"ICA of the {task.side} on {task.n_rows} rows: {failure}, or leave ICA out "
                "(--maps mean,permutation,rigid,linear)"
            ) from failure
    n_used = (len(fits) + 1) // 2
    if settings.starts is None and len(fits) == FIRST_STARTS:
        n_used = len(fits)  # two that agree
    best = best_starts(fits, n_used)
    compared = fits if n_used == len(fits) else best
    return SpaceIca(best, len(fits), start_agreement(compared, covariance))


def _rows_of_task(task: IcaTask, parts: tuple[PairMoments, ...]) -> tuple[Rows, PairMoments]:
    """Return the rows to fit on, and the moments of all rows without the part left out."""
    rows, on = task.view.rows, task.on
    if task.width is not None and task.view.dim > task.width:
        cut = leading_components(merge_all(parts), task.width)
        parts = tuple(map_source(part, cut) for part in parts)
        rows = MappedRows(rows, cut)
    numbers = on.numbers(task.split)
    if numbers is not None:
        rows = SubsetRows(rows, numbers)
    if on.only:
        return rows, merge_all(tuple(parts[part] for part in on.only))
    return rows, merge_all(parts) if on.part is None else leave_one_out(parts)[on.part]


def n_starts_wanted(task: IcaTask, fits: list[IcaFit], covariance: FloatArray) -> int:
    """Return how many starts to make in all, after those that were made."""
    if task.settings.starts is not None:
        return task.settings.starts
    affordable = affordable_starts(task.n_rows, covariance.shape[0], task.settings)
    if len(fits) < FIRST_STARTS:
        return min(FIRST_STARTS, affordable)
    if len(fits) > FIRST_STARTS or affordable < MORE_STARTS:
        return MORE_STARTS if affordable >= MORE_STARTS else len(fits)
    agreement = start_agreement(fits, covariance)
    assert agreement is not None
    return FIRST_STARTS if agreement >= AGREEMENT else MORE_STARTS


def affordable_starts(n_rows: int, dim: int, settings: CompareSettings) -> int:
    """Return how many starts of one view the budget allows, at least one.

    scikit-learn's solver is there for fidelity to what was published: one start.
    """
    if settings.ica.solver == "sklearn":
        return 1
    return max(int(START_BUDGET / fit_cost(n_rows, dim)), 1)


def fit_cost(n_rows: int, dim: int) -> float:
    """Return about how many multiplications one start takes."""
    return 2.0 * n_rows * dim**2 * TYPICAL_PASSES


def start_seed(seed: int, content: str, number: int = 0) -> int:
    """Return the seed of start ``number`` of the ICA of a content.

    It depends on the content and not on its place on the command line, so that a pair has the same
    numbers alone and among ten. Other content has another start: from a common one two views
    would end alike where there is nothing to find, since their principal directions agree. Equal
    content has one start, and so one fit.
    """
    text = f"ICA {seed} {content} {number}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def leading_components(moments: PairMoments, width: int) -> AffineMap:
    """Return the orthogonal projection of the source onto its leading principal directions."""
    whitening = fit_whitening(
        moments.mean_x, moments.sxx / moments.n, epsilon=moments.epsilon_x, max_rank=width
    )
    directions = whitening.matrix.T * np.sqrt(whitening.variances)
    return AffineMap(kind="pca", matrix=directions, shift=-moments.mean_x @ directions)


def map_source(moments: PairMoments, cut: AffineMap) -> PairMoments:
    """Return the moments of the rows after the source went through an affine map."""
    return replace(
        moments,
        mean_x=moments.mean_x @ cut.matrix + cut.shift,
        sxx=cut.matrix.T @ moments.sxx @ cut.matrix,
        sxy=cut.matrix.T @ moments.sxy,
    )


def compute_spaces(
    tasks: "Sequence[PairTask]", settings: CompareSettings, engine: Engine, machine: Machine
) -> dict[str, tuple[Space, Space]]:
    """Return what every pair takes from its two views, by the key of the pair."""
    bundled = [task.halves.pair if task.halves and task.halves.has_ica else None for task in tasks]
    every = [
        (moments_key(view, pair), view, pair.split)
        for pair in (*(task.pair for task in tasks), *filter(None, bundled))
        for view in pair.views
    ]
    keeps_rows = not settings.has_ica  # which comes next and needs the memory
    results = engine.map(
        "moments",
        compute_moments,
        every,
        machine,
        key=itemgetter(0),
        shared=lambda parted: (keeps_rows,),
    )
    moments = {key: result for (key, _, _), result in zip(every, results, strict=True)}
    ica_tasks = [list(_ica_tasks(task, moments)) if settings.has_ica else [] for task in tasks]
    all_tasks = [ica_task for of_pair in ica_tasks for _, ica_task in of_pair]
    fits = engine.map(
        "ICA",
        fit_ica,
        all_tasks,
        machine,
        key=attrgetter("key"),
        shared=lambda ica_task: (moments[ica_task.moments],),
        lanes=ica_lanes,
    )
    fit_of = {ica_task.key: fit for ica_task, fit in zip(all_tasks, fits, strict=True)}
    scales = _scales([task.pair for task in tasks], settings, engine, machine)
    known: dict[tuple[str, ...], Space] = {}  # one object for all pairs of a view

    def space(number: int, side: int) -> Space:
        pair, bundles = tasks[number].pair, bundled[number]
        key = moments_key(pair.views[side], pair)
        bundle_key = "" if bundles is None else moments_key(bundles.views[side], bundles)
        scale = scales.get((number, side))
        ica = [ica_task for of_side, ica_task in ica_tasks[number] if of_side == side]
        name = (key, bundle_key, str(scale is None), *(ica_task.key for ica_task in ica))
        if name not in known:
            known[name] = Space(
                moments=moments[key],
                bundles=moments[bundle_key] if bundle_key else (),
                scale=scale,
                ica={ica_task.on: fit_of[ica_task.key] for ica_task in ica},
            )
        return known[name]

    return {task.key: (space(n, 0), space(n, 1)) for n, task in enumerate(tasks)}


def _ica_tasks(
    task: "PairTask", moments: Mapping[str, tuple[PairMoments, ...]]
) -> Iterator[tuple[int, IcaTask]]:
    """Yield the ICA fits of both sides of a pair, on its rows and on half-samples of them.

    There are none where a part of a side does not vary.
    """
    pair, halves, settings = task.pair, task.halves, task.settings
    parts = [part for view in pair.views for part in moments[moments_key(view, pair)]]
    if not all(np.trace(part.sxx) > 0 for part in parts):
        return
    whole = [
        (ica_rows(pair, 0, part), ica_rows(pair, 1, part)) for part in (None, *pair.split.judged)
    ]
    fits = [(pair, whole, settings)]
    if halves is not None and halves.has_ica:
        fits.append((halves.pair, list(halves.ica_rows()), replace(settings, starts=1)))
    width = pair.common_width(settings)
    for split_pair, rows, how in fits:
        for side, view in enumerate(split_pair.views):
            key = moments_key(view, split_pair)
            for sides in rows:
                # the way back exchanges the rows of the two sides
                back = (sides[1 - side],) if settings.both_directions else ()
                for on in dict.fromkeys((sides[side], *back)):
                    yield side, IcaTask(key, view, split_pair.split, on, width, how, SIDES[side])


def _scales(
    pairs: Sequence[Pair], settings: CompareSettings, engine: Engine, machine: Machine
) -> dict[tuple[int, int], Scale]:
    """Return the scale of every target, by pair and side.

    A view that is cut to fewer columns has none: which directions stay depends on the pair.
    """
    places = [
        (number, side)
        for number, pair in enumerate(pairs)
        for side in ((1, 0) if settings.both_directions else (1,))
        if pair.dims[side] <= (pair.common_width(settings) or pair.dims[side])
    ]
    scales = engine.map(
        "diameter",
        compute_scale,
        [pairs[number].views[side] for number, side in places],
        machine,
        key=lambda view: cache_key("scale", view.key, settings.seed),
        shared=lambda view: (settings.seed,),
    )
    return dict(zip(places, scales, strict=True))
