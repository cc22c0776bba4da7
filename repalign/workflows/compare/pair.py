"""Compare one pair of sources: errors, intervals, nulls and what stands behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from repalign.core.eigen import eigvalsh
from repalign.core.inference.gaussian_twin import TwinNull
from repalign.core.inference.kinds import PAIR_SHUFFLES
from repalign.core.maps.affine import AffineMap
from repalign.core.maps.kinds import KIND_OF
from repalign.core.moments import PairMoments
from repalign.core.thread_choice import is_small, one_thread_if
from repalign.store.joining.index import POOLED, decode_ids
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.compare.aligned import AlignedPair
from repalign.workflows.compare.caveats import (
    warn_of_components,
    warn_of_errors,
    warn_of_free_directions,
    warn_of_groups,
    warn_of_sources,
)
from repalign.workflows.compare.judge import PairFitter, SplitErrors
from repalign.workflows.compare.nulls import PairNulls, shuffle_pair
from repalign.workflows.compare.pair_data import IcaOfSides, PairData, read_pair
from repalign.workflows.compare.records import make_records
from repalign.workflows.compare.results import ErrorRecord, IcaReport, PairReport
from repalign.workflows.compare.scales import Scale, SpreadOfSides
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.similarity.pair import MeasureResult, measure_pair
from repalign.workflows.compare.similarity.records import MeasureRecord, measure_records
from repalign.workflows.compare.spaces import SpaceIca
from repalign.workflows.compare.starts import forget_whitened
from repalign.workflows.compare.twins import EFFICIENCY_MAPS, efficiency_twins
from repalign.workflows.machine import Machine
from repalign.workflows.study.resampled import Resampled, resampled_pair
from repalign.workflows.study.tiles import HELD, room_for_rows


@dataclass(frozen=True, eq=False)
class PairResult:
    """Records, report and in-sample maps of one direction of one pair."""

    records: tuple[ErrorRecord, ...]
    measures: tuple[MeasureRecord, ...]
    report: PairReport
    maps: Mapping[str, AffineMap]
    resampled: tuple[Resampled, ...] = ()


@dataclass(frozen=True, eq=False)
class PairUnit:
    """All that is computed of two spaces together: maps, errors, nulls, in one direction or both.

    Attributes:
        key: Name of the work.
        aligned: The two spaces.
        moments: Of the parts of both, each alone.
        ica: Of both sides, by side and rows.
        spreads: How far apart the rows of the targets are.
        settings: Conventions.
        keeps_maps: Whether the maps are part of the result.
    """

    key: str
    aligned: AlignedPair
    moments: tuple[tuple[PairMoments, ...], tuple[PairMoments, ...]]
    ica: IcaOfSides
    spreads: SpreadOfSides
    settings: CompareSettings
    keeps_maps: bool = True
    stage = "pairs"

    def run(self, machine: Machine) -> list[PairResult]:
        """Compare them."""
        forget_whitened()
        with one_thread_if(is_small(self.aligned.n_rows, *self.aligned.dims)):
            room = room_for_rows(self.aligned.n_rows, self.aligned.dims, machine)
            first, second = self.aligned.spaces
            rows = HELD.rows(first, room), HELD.rows(second, room)
            pair = read_pair(self.aligned, self.moments, self.ica, self.settings, machine, rows)
            pair = replace(pair, spreads=self.spreads)
            results = [_compare(pair, self.settings, machine)]
            if self.settings.both_directions:
                results.append(_compare(pair.reversed(), self.settings, machine))
        if self.keeps_maps:
            return results
        return [replace(result, maps={}) for result in results]


def _compare(pair: PairData, settings: CompareSettings, machine: Machine) -> PairResult:
    names, notes = usable_maps(pair.aligned, settings)
    fitter = PairFitter(pair, names, settings, machine)
    judged = [fitter.in_sample()] if names else []
    if judged and fitter.split.judged:
        judged.append(fitter.held_out())
    nulls = shuffle_pair(fitter) if names else None
    twins: dict[str, TwinNull] = {}
    if set(EFFICIENCY_MAPS) <= set(names):
        twins = efficiency_twins(pair, settings, machine)
    source, target = (space.source for space in pair.aligned.spaces)
    records = tuple(
        record
        for errors in judged
        for record in make_records(errors, source, target, settings, nulls=nulls, twins=twins)
    )
    measured = list(measure_pair(pair, settings, machine)) if settings.measures else []
    warnings = [
        *(notes if settings.maps else ()),
        *pair.aligned.report.warnings,
        *warn_of_sources(source, target),
        *(_ica_warnings(judged[0]) if judged else ()),
        *warn_of_groups([*judged, *(values for each in measured for values in each.values)]),
        *(() if nulls is None else nulls.notes),
        *warn_of_free_directions(judged, pair.total),
        *warn_of_errors(records, twins),
        *(warn_of_components(judged[0]) if judged else ()),
        *(note for each in measured for note in each.notes),
    ]
    scale = fitter.scale_of_target() if not judged else first_scale(judged[0])
    report = _report(pair, judged, scale, nulls=nulls, twins=twins)
    report = replace(report, warnings=tuple(dict.fromkeys(warnings)))
    maps = {name: fitted.map for name, fitted in judged[0].maps.by_name.items()} if judged else {}
    return PairResult(
        records,
        _in_order(measured, source, target, settings),
        report,
        maps,
        tuple(resampled_pair(pair.aligned.index, judged, nulls, measured)),
    )


def _in_order(
    measured: Sequence[MeasureResult],
    source: EmbeddingSource,
    target: EmbeddingSource,
    settings: CompareSettings,
) -> tuple[MeasureRecord, ...]:
    """Return the records of measures by split, in the order in which they were asked for."""
    found = [
        record for each in measured for record in measure_records(each, source, target, settings)
    ]
    place = {name: number for number, name in enumerate(settings.measures)}
    found.sort(key=lambda record: (record.split != "in-sample", place[record.measure]))
    return tuple(found)


def first_scale(errors: SplitErrors) -> Scale:
    """Return the denominators in the space of the target."""
    return next(errors.scales[name] for name in errors.scales if not KIND_OF[name].in_components)


def usable_maps(pair: AlignedPair, settings: CompareSettings) -> tuple[list[str], list[str]]:
    """Return the maps that these widths allow, and why others are left out."""
    widths = pair.dims
    if widths[0] == widths[1]:
        return list(settings.maps), []
    note = f"widths differ ({widths[0]} and {widths[1]}), policy {settings.width_policy}: "
    if settings.width_policy == "pca":
        note += f"the wider side is cut to its {min(widths)} leading principal components"
        return list(settings.maps), [note]
    if any(name.startswith("permutation") for name in settings.maps):
        note += (
            f"the permutation matches {min(widths)} columns and predicts the others by their mean"
        )
    else:
        note += "the narrower side is padded with zeros"
    names = [name for name in settings.maps if not KIND_OF[name].needs_equal_widths]
    for name in settings.maps:
        note += "" if name in names else f"; the {name} map is left out"
    return names, [note]


def _ica_warnings(errors: SplitErrors) -> list[str]:
    if errors.ica is None:
        return []
    return [warning for side in errors.ica for warning in side.fit.warnings]


def _report(
    pair: PairData,
    judged: Sequence[SplitErrors],
    scale: Scale,
    *,
    nulls: PairNulls | None,
    twins: Mapping[str, TwinNull],
) -> PairReport:
    errors = judged[0] if judged else None
    source, target = (space.source for space in pair.aligned.spaces)
    ends = scale.diameter.first_row, scale.diameter.second_row
    matching = None if errors is None else errors.maps.matching
    return PairReport(
        source=_provenance(source),
        target=_provenance(target),
        join=asdict(pair.aligned.report),
        n_rows=pair.aligned.n_rows,
        diameter=scale.diameter.value,
        diameter_upper=scale.diameter.upper,
        diameter_exact=scale.diameter.exact,
        diameter_rows=(_row_name(pair.aligned, ends[0]), _row_name(pair.aligned, ends[1])),
        rms_radius=scale.rms_radius,
        diameter_99=scale.diameter_99,
        ica=() if errors is None else _ica_reports(errors.ica, pair.aligned),
        matched_correlations=() if matching is None else tuple(matching.correlation.tolist()),
        null_errors={} if nulls is None else _null_errors(nulls, judged),
        matched_identifiable=() if errors is None else _matched_identifiable(errors),
        gaussian_efficiencies={split: twin.values for split, twin in twins.items()},
        spectra=_spectra(pair.total),
        warnings=(),
    )


def _matched_identifiable(errors: SplitErrors) -> tuple[bool, ...]:
    """Return which matched components are less Gaussian than chance on both sides."""
    matching = errors.maps.matching
    if matching is None or errors.ica is None:
        return ()
    is_known = np.ones(len(matching.correlation), dtype=bool)
    pairs = matching.matching
    for side, numbers in zip(errors.ica, (pairs.source, pairs.target), strict=True):
        # components stand by falling non-Gaussianity
        if side.fit.n_identifiable is not None:
            is_known &= numbers < side.fit.n_identifiable
    return tuple(is_known.tolist())


def _null_errors(nulls: PairNulls, judged: Sequence[SplitErrors]) -> dict[str, tuple[float, ...]]:
    """Return the errors on shuffled pairs, over the diameter that the split's own errors have."""
    draws = {}
    for errors in judged:
        null = nulls.of(PAIR_SHUFFLES[0].name, errors.split)
        for number, name in enumerate(nulls.names if null is not None else ()):
            assert null is not None
            diameter = errors.scales[name].diameter.value
            if diameter > 0:
                values = null.shuffled[:, number] / diameter
                draws[f"{errors.split}/{name}"] = tuple(values.tolist())
    return draws


def _provenance(source: EmbeddingSource) -> dict[str, Any]:
    return {
        "name": source.name,
        "path": None if source.path is None else str(source.path),
        "view": source.view,
        "layer": source.layer,
        "n_rows": source.n_rows,
        "dim": source.dim,
        "dtype": str(source.rows.dtype),
        "fingerprint": source.fingerprint,
        "info": dict(source.info),
    }


def _row_name(pair: AlignedPair, row: int) -> str:
    """Name a row as its user does: by id, else by sample number, and by token where it has one."""
    index = pair.index.slice(row, row + 1)
    name = str(int(index.sample[0])) if index.ids is None else decode_ids(index.ids)[0]
    token = int(index.token[0])
    return name if token == POOLED else f"{name}, token {token}"


def _ica_reports(ica: tuple[SpaceIca, SpaceIca] | None, pair: AlignedPair) -> tuple[IcaReport, ...]:
    if ica is None:
        return ()
    return tuple(
        IcaReport(
            side=side,
            rows="all" if space.fit.n_fit_rows == pair.n_rows else "some",
            solver=space.fit.settings.solver,
            contrast=space.fit.settings.contrast,
            converged=space.fit.converged,
            iterations=space.fit.n_iter,
            gradient_rms=space.fit.gradient_rms,
            rank=space.fit.rank,
            dim=dim,
            identifiable=space.fit.n_identifiable,
            kurtosis=tuple(space.fit.kurtosis.tolist()),
            n_starts=space.n_starts,
            agreement=space.agreement,
            n_fit_rows=space.fit.n_fit_rows,
            seed=space.fit.settings.seed,
        )
        for side, space, dim in zip(("source", "target"), ica, pair.dims, strict=True)
    )


def _spectra(total: PairMoments) -> dict[str, tuple[float, ...]]:
    """Return the variances along the principal directions of both sides, falling."""
    return {
        side: tuple(eigvalsh(scatter / total.n)[::-1].clip(min=0).tolist())
        for side, scatter in (("source", total.sxx), ("target", total.syy))
    }
