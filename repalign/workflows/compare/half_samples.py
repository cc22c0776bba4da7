"""A pair on half-samples of its groups: what its intervals of in-sample errors and ICA rest on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.core.inference.jackknife import count_groups, delete_half
from repalign.core.inference.splits import Bundles, bundle_groups
from repalign.core.maps.fitting import IcaPair
from repalign.core.maps.kinds import KIND_OF
from repalign.core.moments import PairMoments, pair_moments
from repalign.workflows.compare.judge import PairFitter, SplitErrors
from repalign.workflows.compare.pair_data import PairData
from repalign.workflows.compare.pairs import Pair
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.space import IcaRows, fit_cost, rms_radius
from repalign.workflows.machine import Machine

EFFICIENCY_MAPS = ("permutation", "rigid", "ica")
N_HALVES = 20
"""Half-samples behind an interval."""
# Multiplications that the ICA of half-samples may take unless a number of them is asked for: some
# ten seconds of one core.
HALVES_BUDGET = 4e11
# By the identity of the groups and the name of the split.
KnownBundles = dict[tuple[int, str], Bundles | None]
# Share of the memory that the moments of all bundles may take.
MOMENTS_SHARE = 4


@dataclass(frozen=True, eq=False)
class HalfSamples:
    """A pair whose rows are dealt into bundles, and the half-samples made of these.

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
        if not self.has_ica:
            return
        for sample in self.bundles.samples:
            yield IcaRows(only=sample), IcaRows(only=sample)
            for part in self.judged if self.is_disjoint else ():
                yield self.disjoint(sample, part)

    def disjoint(self, sample: tuple[int, ...], part: int) -> tuple[IcaRows, IcaRows]:
        """Return the rows of the ICA of both sides behind a held-out part of a sample."""
        first, second = self.bundles.disjoint_halves(sample, part)
        return IcaRows(only=first), IcaRows(only=second)


def half_samples(
    pair: Pair,
    settings: CompareSettings,
    known: KnownBundles,
) -> HalfSamples | None:
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
    p, q = pair.dims
    counts = np.bincount(bundles.split.part_of_row, minlength=bundles.split.n_parts)
    fewest = min(int(counts[list(sample)].sum()) for sample in bundles.samples)
    has_ica = fewest > max(p, q) and halves_have_ica(pair.n_rows, max(p, q), settings)
    smallest = min(
        (
            int(counts[list(half)].sum())
            for sample in bundles.samples
            for part in pair.split.judged
            for half in bundles.disjoint_halves(sample, part)
        ),
        default=0,
    )
    is_disjoint = has_ica and smallest > max(p, q)
    return HalfSamples(
        replace(pair, split=bundles.split), bundles, pair.split.judged, has_ica, is_disjoint
    )


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


def bundled_pair(pair: PairData, samples: HalfSamples, machine: Machine) -> PairData:
    """Return a pair with the moments of all bundles, where the memory holds them."""
    split, (p, q) = samples.pair.split, (pair.source.shape[1], pair.target.shape[1])
    moments_bytes = 8 * split.n_parts * (p * p + p * q + q * q)
    parts: tuple[PairMoments, ...] = ()
    if moments_bytes * MOMENTS_SHARE <= machine.memory_bytes:
        parts = pair_moments(
            pair.source,
            pair.target,
            part_of_row=split.part_of_row,
            n_parts=split.n_parts,
            **machine.limits("moments"),
        )
    return PairData(samples.pair, pair.source, pair.target, parts, {})


def with_half_samples(
    judged: Sequence[SplitErrors],
    samples: HalfSamples,
    pair: PairData,
    settings: CompareSettings,
    machine: Machine,
) -> list[SplitErrors]:
    """Return errors with the same on half-samples; ``pair`` is split into bundles."""
    names = list(judged[0].norms)
    groups = pair.aligned.groups
    fitter = PairFitter(pair, names, settings, machine)
    total = fitter.moments_of(tuple(range(pair.aligned.split.n_parts)))
    found = []
    for errors in judged:
        if errors.split == "in-sample":
            draws = _in_sample(fitter, names, samples)
        elif samples.is_disjoint and errors.is_disjoint and errors.ica is not None:
            draws = _held_out(fitter, names, samples)
        else:
            found.append(errors)
            continue
        full = [float(errors.norms[name].mean()) for name in names]
        values = np.array([*full, rms_radius(total, None)])
        found.append(replace(errors, halves=delete_half(values, draws, _judged(groups, errors))))
    return found


def _judged(groups: IntArray, errors: SplitErrors) -> IntArray:
    """Return the groups that judge: an interval needs enough of them."""
    return groups if errors.split == "in-sample" else errors.groups


def _in_sample(fitter: PairFitter, names: Sequence[str], samples: HalfSamples) -> FloatArray:
    """Return mean errors by half-sample and map, and the RMS radius of the target."""
    fitted = [name for name in names if samples.has_ica or not KIND_OF[name].needs_ica]
    columns = [names.index(name) for name in fitted]
    draws = np.full((len(samples.bundles.samples), len(names) + 1), np.nan)
    for draw, sample in zip(draws, samples.bundles.samples, strict=True):
        ica = _ica(fitter, (IcaRows(only=sample), IcaRows(only=sample)), fitted)
        draw[columns] = fitter.errors_on(fitted, sample, sample, ica)
        draw[-1] = rms_radius(fitter.moments_of(sample), None)
    return draws


def _held_out(fitter: PairFitter, names: Sequence[str], samples: HalfSamples) -> FloatArray:
    """Return the same of held-out rows, for the maps that the ICA efficiency needs."""
    fitted = [name for name in names if name in EFFICIENCY_MAPS or KIND_OF[name].needs_ica]
    columns = [names.index(name) for name in fitted]
    bundles = samples.bundles
    draws = np.full((len(bundles.samples), len(names) + 1), np.nan)
    for draw, sample in zip(draws, bundles.samples, strict=True):
        errors, weights = [], []
        for part in samples.judged:
            inside = bundles.inside(sample, part)
            fitting = tuple(bundle for bundle in sample if bundle not in inside)
            ica = _ica(fitter, samples.disjoint(sample, part), fitted)
            errors.append(fitter.errors_on(fitted, fitting, inside, ica))
            weights.append(fitter.moments_of(inside).n)
        draw[columns] = np.average(errors, axis=0, weights=weights)
        draw[-1] = rms_radius(fitter.moments_of(sample), None)
    return draws


def _ica(fitter: PairFitter, rows: tuple[IcaRows, IcaRows], names: Sequence[str]) -> IcaPair | None:
    if not any(KIND_OF[name].needs_ica for name in names):
        return None
    source, target = (fitter.pair.ica[side, on].fit for side, on in enumerate(rows))
    return IcaPair(source, target)
