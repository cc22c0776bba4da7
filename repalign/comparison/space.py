"""What depends on one view alone, whatever it is compared with: moments, scale and ICA.

All is computed once for all pairs of a view. Seeds follow from content.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

import numpy as np

from repalign.aliases import FloatArray, IntArray, Rows
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
from repalign.core.moments import PairMoments, Parts, leave_one_out, merge_all, space_moments
from repalign.core.resampling.groups import Split
from repalign.core.rows import SubsetRows
from repalign.core.scale import Diameter, diameter, quantile_diameter, target_rms_radius
from repalign.engine.cache import cache_key
from repalign.engine.machine import Machine
from repalign.exceptions import InputError

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

    def with_radius(self, moments: PairMoments, space: AffineMap | None = None) -> "Scale":
        """Return the same with the RMS radius of the target rows of moments, in a space."""
        return replace(self, rms_radius=rms_radius(moments, space))


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


@dataclass(frozen=True, eq=False)
class Partition:
    """A view whose rows are in parts; ``name`` is equal where the parts are."""

    view: View
    split: Split
    name: str

    @cached_property
    def key(self) -> str:
        """Name of its moments."""
        return cache_key("moments", self.view.key, self.name)


def compute_moments(
    machine: Machine, partition: Partition, keeps_rows: bool
) -> tuple[PairMoments, ...]:
    """Return the moments of every part of a view; its rows may stay in memory."""
    view, split = partition.view, partition.split
    with one_thread_if(is_small(view.n_rows, view.dim)):
        rows = view.loaded(view.dim, machine) if keeps_rows else view.rows
        parts = Parts(split.part_of_row, split.n_parts)
        return space_moments(rows, parts, **machine.limits("moments"))


def scale_key(view: View, seed: int) -> str:
    """Return the name of the scale of a view."""
    return cache_key("scale", view.key, seed)


def compute_scale(machine: Machine, view: View, seed: int) -> Scale:
    """Return how far apart the rows of a view are; they may stay in memory, since pairs follow."""
    with one_thread_if(is_small(view.n_rows, view.dim)):
        return scale_of_rows(view.loaded(view.dim, machine), seed, machine)


def scale_of_rows(rows: Rows, seed: int, machine: Machine) -> Scale:
    """Return how far apart some rows are."""
    return Scale(diameter(rows, **machine.limits("diameter")), quantile_diameter(rows, seed=seed))


def rms_radius(moments: PairMoments, space: AffineMap | None) -> float:
    """Return the root mean squared distance of the target rows from their mean in a space."""
    if space is None:
        return target_rms_radius(moments)
    scatter = np.einsum("ij,ik,kj->", space.matrix, moments.syy, space.matrix, optimize=True)
    return float(np.sqrt(max(scatter, 0.0) / moments.n))


@dataclass(frozen=True, eq=False)
class IcaTask:
    """The ICA of one view on some of its rows.

    Attributes:
        partition: The view and its parts.
        on: The rows that are fitted.
        width: The number of leading principal components that are kept; None for all.
        settings: Conventions.
        side: What the view is called in messages: source or target.
    """

    partition: Partition
    on: IcaRows
    width: int | None
    settings: CompareSettings
    side: str

    @property
    def view(self) -> View:
        """The view."""
        return self.partition.view

    @cached_property
    def key(self) -> str:
        """Name of the ICA."""
        settings = self.settings
        how = (asdict(settings.ica), settings.starts, settings.seed)
        return cache_key(
            "ica", self.view.key, self.partition.name, asdict(self.on), self.width, how
        )

    @cached_property
    def n_rows(self) -> int:
        """Number of rows that are fitted, or of which some are."""
        numbers = self.on.numbers(self.partition.split)
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
    numbers = on.numbers(task.partition.split)
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
