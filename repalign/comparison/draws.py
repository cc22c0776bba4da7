"""A pair evaluated again: on shuffled pairs, on half-samples, with rotated components."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from repalign.aliases import FloatArray
from repalign.comparison.pairs import Pair
from repalign.comparison.scores import MapScores, Scores
from repalign.comparison.settings import CompareSettings
from repalign.comparison.space import IcaRows, Space, fit_cost
from repalign.comparison.views import MAX_NULL_ROWS, NULL_COPIES
from repalign.core.maps import KIND_OF
from repalign.core.moments import PairMoments, merge_all, pair_moments
from repalign.core.resampling.evaluate import MapEvaluator, MeasureEvaluator
from repalign.core.resampling.groups import Bundles, bundle_groups
from repalign.core.resampling.intervals import Replicates, count_groups, delete_half
from repalign.core.resampling.kinds import PAIR_SHUFFLES
from repalign.core.resampling.nulls import Null
from repalign.core.resampling.permutations import FEWEST_ARRANGEMENTS, ShufflePlan, plan_shuffles
from repalign.core.resampling.rotations import EFFICIENCY_MAPS
from repalign.core.resampling.sample import CHEAP, MAX_JUDGED, IcaStarts, Sample
from repalign.core.scale import rms_radius
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.printable import byte_size

FEWEST_ROWS = 50
# Draws of a null unless a number is asked for, and the fewest to which wide spaces reduce them.
N_SHUFFLES, FEWEST_SHUFFLES = 99, 9
N_ROTATIONS, FEWEST_ROTATIONS = 99, 19
# Multiplications from which on there are fewer draws: some seconds on two cores.
BUDGET = 1.5e11
N_HALVES = 20
"""Half-samples behind an interval."""
# Multiplications that the ICA of half-samples may take unless a number of them is asked for: some
# ten seconds of one core.
HALVES_BUDGET = 4e11
# Share of the memory that the moments of all bundles may take.
MOMENTS_SHARE = 4

AnyScores = TypeVar("AnyScores", bound=Scores)


def plan_inside_groups(sample: Sample) -> ShufflePlan | str:
    """Return how the rows of every group change places, or why that means nothing."""
    if np.unique(sample.groups).size == sample.n_rows:
        return "no p-value beyond the groups: every row is a group of its own"
    if sample.is_ordered:
        return (
            "no p-value beyond the groups: rows of one sample stand in an order (tokens), and "
            "shuffling them would not leave it as it was"
        )
    plan = plan_shuffles(sample.groups, sample.split, beyond_groups=True)
    if not plan.within.is_sufficient:
        return (
            f"no p-value beyond the groups: rows can change places inside them in "
            f"{plan.within.count} ways in all, and a p-value needs {FEWEST_ARRANGEMENTS}"
        )
    return plan


def shuffle_plans(
    sample: Sample, settings: CompareSettings
) -> tuple[dict[str, ShufflePlan], list[str]]:
    """Return the plan of every null that is asked for, by name, and why others have none."""
    whole_groups, inside_groups = (kind.name for kind in PAIR_SHUFFLES)
    plans = {
        whole_groups: plan_shuffles(
            sample.groups, sample.split, is_ordered=sample.is_ordered, seed=settings.seed
        )
    }
    if not settings.beyond_groups:
        return plans, []
    plan = plan_inside_groups(sample)
    if isinstance(plan, str):
        return plans, [plan]
    return {**plans, inside_groups: plan}, []


def with_nulls(
    scores: Sequence[AnyScores], drawn: Mapping[str, Mapping[str, Null]]
) -> tuple[list[AnyScores], list[str]]:
    """Return scores with their nulls, and why some of these give no p-value."""
    notes = [
        f"{split}, {null.refusal}"
        for nulls in drawn.values()
        for split, null in nulls.items()
        if null.refusal is not None
    ]
    of_splits = [
        replace(score, nulls={kind: nulls[score.split] for kind, nulls in drawn.items()})
        for score in scores
    ]
    return of_splits, notes


def null_rows(dims: tuple[int, int], n_rows: int, machine: Machine) -> int:
    """Return how many rows a null may hold: as many as say anything new, within the memory.

    Raises:
        InputError: The cap holds too few to say anything.
    """
    row_bytes = NULL_COPIES * 8 * sum(dims)
    room = machine.memory_bytes // row_bytes
    fewest = min(n_rows, FEWEST_ROWS)
    if room < fewest:
        needed = byte_size(fewest * row_bytes, up=True)
        raise InputError(
            f"memory: {byte_size(machine.memory_bytes)} allowed, {needed} needed for a null on "
            f"{fewest} rows; allow more (--memory), or leave nulls out (--null 0)"
        )
    return min(n_rows, MAX_NULL_ROWS, room)


def shuffles_wanted(cost: float, settings: CompareSettings) -> int:
    """Return how many shuffles are drawn: as asked for, else 99, fewer of wide spaces."""
    if settings.n_null is not None:
        return settings.n_null
    return int(np.clip(BUDGET / cost, FEWEST_SHUFFLES, N_SHUFFLES))


def n_rotations(names: Sequence[str], pair: Pair, sample: Sample, settings: CompareSettings) -> int:
    """Return how many rotations are drawn: fewer for very wide spaces, unless asked for.

    The held-out efficiency can be tested only where its maps are fitted and the two ICAs share no
    rows.
    """
    parts = pair.split.judged
    is_efficiency = set(EFFICIENCY_MAPS) <= set(names)
    if not (parts and is_efficiency and all(pair.has_halves(part) for part in parts)):
        return 0
    if settings.n_rotations is not None:
        return settings.n_rotations
    dim, n_rows = max(sample.dims), min(sample.n_rows, MAX_JUDGED)
    cost = 2.0 * n_rows * dim**2 + 30.0 * dim**3 * len(parts)
    return int(np.clip(BUDGET / cost, FEWEST_ROTATIONS, N_ROTATIONS))


def shuffle_cost(n_rows: int, dims: tuple[int, int], n_maps: int, n_judged_parts: int) -> float:
    """Return about how many multiplications a shuffle takes."""
    p, q = dims
    solving = 30.0 * max(p, q) ** 3 * (1 + n_judged_parts)
    judged = min(n_rows, max(MAX_JUDGED, int(CHEAP / (p * q))))
    judging = 2.0 * judged * p * q * n_maps * (2 if n_judged_parts else 1)
    return 2.0 * n_rows * p * q + solving + judging


# Half-samples


@dataclass(frozen=True, eq=False)
class HalfSamples:
    """Half-samples of the groups of a pair, made of bundles of them.

    Attributes:
        pair: The pair, split into bundles.
        bundles: The bundles.
        judged: The parts of the original split that judge.
        has_ica: Whether ICA is fitted on half-samples.
        is_disjoint: Whether behind held-out rows it is fitted on disjoint halves of a sample.
    """

    pair: Pair
    bundles: Bundles
    judged: tuple[int, ...]
    has_ica: bool
    is_disjoint: bool

    def ica_rows(self) -> Iterator[tuple[IcaRows, IcaRows]]:
        """Yield the rows of the ICA of both sides, of every fit that there is."""
        for number in range(len(self.bundles.samples) if self.has_ica else 0):
            yield from self.ica_rows_of(number).values()

    def ica_rows_of(self, number: int) -> dict[int | None, tuple[IcaRows, IcaRows]]:
        """Return the rows of the ICA of both sides of one sample, by the part left out."""
        sample = self.bundles.samples[number]
        rows: dict[int | None, tuple[IcaRows, IcaRows]] = {
            None: (IcaRows(only=sample), IcaRows(only=sample))
        }
        for part in self.judged if self.is_disjoint else ():
            first, second = self.bundles.disjoint_halves(sample, part)
            rows[part] = IcaRows(only=first), IcaRows(only=second)
        return rows


# By the identity of the groups and the name of the split.
KnownBundles = dict[tuple[int, str], Bundles | None]


def plan_halves(pair: Pair, settings: CompareSettings, known: KnownBundles) -> HalfSamples | None:
    """Return the half-samples of a pair; None where no interval could follow from them.

    ``known`` are the bundles of other pairs: pairs of the same groups and split share them.
    """
    n_samples = N_HALVES if settings.n_halves is None else settings.n_halves
    if n_samples == 0 or count_groups(pair.groups).refusal is not None:
        return None
    key = id(pair.groups), pair.split_key  # the pair keeps its groups, and so the identity
    if key not in known:
        known[key] = bundle_groups(pair.groups, pair.split, n_samples, settings.seed)
    bundles = known[key]
    if bundles is None:
        return None
    widest, judged = max(pair.dims), pair.split.judged
    counts = np.bincount(bundles.split.part_of_row, minlength=bundles.split.n_parts)

    def fewest(choices: Iterable[tuple[int, ...]]) -> int:
        return min((int(counts[list(chosen)].sum()) for chosen in choices), default=0)

    has_ica = fewest(bundles.samples) > widest
    has_ica = has_ica and halves_have_ica(pair.n_rows, widest, settings)
    disjoint = (
        half
        for sample in bundles.samples
        for part in judged
        for half in bundles.disjoint_halves(sample, part)
    )
    is_disjoint = has_ica and fewest(disjoint) > widest
    return HalfSamples(replace(pair, split=bundles.split), bundles, judged, has_ica, is_disjoint)


def refusal_of_halves(pair: Pair, settings: CompareSettings) -> list[str]:
    """Return why a pair without half-samples has none, where its groups are enough."""
    if settings.n_halves == 0 or count_groups(pair.groups).refusal is not None:
        return []
    return [
        "no half-samples, so no interval in-sample or of ICA: a part of the split has only one "
        "group; use fewer folds"
    ]


def halves_have_ica(n_rows: int, dim: int, settings: CompareSettings) -> bool:
    """Whether ICA is fitted on half-samples: where a number is asked for, or it is cheap.

    In-sample half of the rows, and a quarter of them or less behind each held-out part.
    """
    if not settings.has_ica or settings.n_halves == 0:
        return False
    if settings.n_halves is not None:
        return True
    n_judged = settings.n_folds or bool(settings.held_out)
    share = 0.5 + 0.25 * n_judged
    return N_HALVES * share * fit_cost(n_rows, dim) <= HALVES_BUDGET


def bundle_moments(sample: Sample, bundles: Bundles, machine: Machine) -> tuple[PairMoments, ...]:
    """Return the moments of all bundles; none where the memory does not hold them."""
    p, q = sample.dims
    n_bundles = bundles.split.n_parts
    if 8 * n_bundles * (p * p + p * q + q * q) * MOMENTS_SHARE > machine.memory_bytes:
        return ()
    return pair_moments(
        sample.source,
        sample.target,
        part_of_row=bundles.split.part_of_row,
        n_parts=n_bundles,
        **machine.limits("moments"),
    )


def half_sample(
    sample: Sample,
    bundles: Bundles,
    number: int,
    moments: Sequence[PairMoments],
    ica: Mapping[int | None, IcaStarts],
) -> Sample:
    """Return one half-sample; its moments are sums of those of bundles, or are read again."""
    chosen = bundles.samples[number]
    rows = bundles.split.rows_of(chosen)
    split = sample.split.rows(rows)
    by_part = [bundles.inside(chosen, part) for part in range(split.n_parts)]
    by_part = [chosen] if split.n_parts == 1 else by_part  # of a sample that is not split
    parts = tuple(
        merge_all(tuple(moments[bundle] for bundle in inside))
        for inside in (by_part if moments else ())
    )
    half = sample.subset(rows, parts, ica)
    if moments:
        return half
    read = pair_moments(
        half.source, half.target, part_of_row=split.part_of_row, n_parts=split.n_parts
    )
    return replace(half, moments=read)


def halves_of_maps(
    evaluate: MapEvaluator,
    sample: Sample,
    scores: Sequence[MapScores],
    halves: HalfSamples,
    moments: Sequence[PairMoments],
    spaces: tuple[Space, Space],
) -> list[MapScores]:
    """Return errors with the same on half-samples of the groups.

    In-sample of all maps, held-out of those that the ICA efficiency needs.
    """
    names = evaluate.names
    in_sample = [name for name in names if halves.has_ica or not KIND_OF[name].needs_ica]
    counts = np.bincount(halves.bundles.split.part_of_row)
    fewest = min(int(counts[list(drawn)].sum()) for drawn in halves.bundles.samples)
    if fewest <= sample.dims[0] + 1:
        # it passes through every row of such a half, and tells nothing about more of them
        in_sample = [name for name in in_sample if name != "linear"]
    held_out = [name for name in names if name in EFFICIENCY_MAPS or KIND_OF[name].needs_ica]
    is_halved = [
        score.split == "in-sample"
        or (halves.is_disjoint and score.is_disjoint and score.ica is not None)
        for score in scores
    ]
    n_samples = len(halves.bundles.samples)
    draws = np.full((len(scores), n_samples, len(names) + 1), np.nan)
    for number in range(n_samples):
        rows = halves.ica_rows_of(number) if halves.has_ica and evaluate.needs_ica else {}
        ica = {
            part: (spaces[0].ica[first].fits, spaces[1].ica[second].fits)
            for part, (first, second) in rows.items()
        }
        half = half_sample(sample, halves.bundles, number, moments, ica)
        for draw, score, wanted in zip(draws[:, number], scores, is_halved, strict=True):
            if not wanted:
                continue
            fitted = in_sample if score.split == "in-sample" else held_out
            evaluate_some = evaluate.only(fitted)
            columns = [names.index(name) for name in fitted]
            if score.split == "in-sample":
                draw[columns] = evaluate_some.means(half, None)
            else:
                by_part = [evaluate_some.means(half, part) for part in half.split.judged]
                draw[columns] = np.average(by_part, axis=0, weights=half.n_of_judged_parts)
            draw[-1] = rms_radius(half.total)
    radius = rms_radius(sample.total)
    return [
        replace(score, halves=delete_half(np.array([*score.values, radius]), draw, score.groups))
        if wanted
        else score
        for score, draw, wanted in zip(scores, draws, is_halved, strict=True)
    ]


def halves_of_measures(
    evaluate: MeasureEvaluator,
    sample: Sample,
    bundles: Bundles,
    moments: Sequence[PairMoments],
    values: FloatArray,
) -> Replicates:
    """Return measures with the same on half-samples of the groups."""
    draws = np.empty((len(bundles.samples), values.size))
    for number, draw in enumerate(draws):
        half = half_sample(sample, bundles, number, moments, {})
        draw[:] = evaluate.values(evaluate.evidence(half, None))
    return delete_half(values, draws, sample.groups)
