"""From scores to tidy records and the report of a pair: denominators, intervals, nulls."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from repalign.comparison.pairs import Pair
from repalign.comparison.results import ErrorRecord, IcaReport, MeasureRecord, PairReport
from repalign.comparison.scores import MapScores, Scores
from repalign.comparison.settings import CompareSettings
from repalign.comparison.space import Scale, SpaceIca
from repalign.core.linalg import eigvalsh
from repalign.core.maps import KIND_OF
from repalign.core.measures import Measure, measure_called
from repalign.core.moments import PairMoments
from repalign.core.resampling.intervals import Interval
from repalign.core.resampling.kinds import PAIR_SHUFFLES
from repalign.options import recorded_values
from repalign.store.source import EmbeddingSource


def make_records(errors: MapScores, pair: Pair, settings: CompareSettings) -> Iterator[ErrorRecord]:
    """Yield one record a map, in the order in which the maps were asked for."""
    common = _common_columns(errors, pair, settings)
    null = errors.nulls.get(PAIR_SHUFFLES[0].name)
    for number, name in enumerate(errors.names):
        scale, kind = errors.scales[name], KIND_OF[name]
        diameter = scale.diameter.value
        interval, over_radius = errors.error_interval(number), errors.radius_interval(number)
        efficiency, efficiency_interval = errors.efficiency(name)
        rotated = errors.rotations if name == "ica" and efficiency is not None else None
        yield ErrorRecord(
            **common,
            **_p_values(errors, number, is_tested=kind.is_paired),
            **_ica_columns(errors) if kind.needs_ica else NO_ICA,
            map=name,
            error=_over(errors.values[number], diameter),
            ci_low=_known(interval.low),
            ci_high=_known(interval.high),
            null=None if null is None else _over(null.means()[number], diameter),
            null_observed=None if null is None else _over(null.observed[number], diameter),
            efficiency=efficiency,
            efficiency_low=_known(efficiency_interval.low),
            efficiency_high=_known(efficiency_interval.high),
            efficiency_null=None if rotated is None else _known(rotated.mean),
            efficiency_null_sd=None if rotated is None else _known(rotated.spread),
            n_rotations=None if rotated is None else rotated.rotated.size,
            efficiency_p=None if rotated is None else _known(rotated.p_value),
            error_over_rms_radius=_over(errors.values[number], scale.rms_radius),
            rms_low=_known(over_radius.low),
            rms_high=_known(over_radius.high),
            diameter=diameter,
            diameter_upper=scale.diameter.upper,
            diameter_99=_known(scale.diameter_99),
            rms_radius=scale.rms_radius,
            n_halves=errors.n_halves(number),
            conventions=_conventions(settings, () if kind.needs_ica else OF_ICA),
        )


def measure_records(
    measured: Sequence[Scores], pair: Pair, settings: CompareSettings
) -> list[MeasureRecord]:
    """Return one record a measure and split, by split, in the order asked for."""
    records = []
    for scores in measured:
        common = _common_columns(scores, pair, settings)
        null = scores.nulls.get(PAIR_SHUFFLES[0].name)
        for number, name in enumerate(scores.names):
            measure, value = measure_called(name), _known(scores.values[number])
            interval = _measure_interval(scores, number, measure)
            sign = -measure.sign  # nulls are errors
            record = MeasureRecord(
                **common,
                **_p_values(scores, number, is_tested=value is not None),
                measure=name,
                value=value,
                better=measure.better,
                ci_low=None if interval is None else _known(interval.low),
                ci_high=None if interval is None else _known(interval.high),
                null=None if null is None else _known(sign * null.means()[number]),
                null_observed=None if null is None else _known(sign * null.observed[number]),
                conventions=_conventions(settings, (*OF_ICA, *OF_MAPS)),
            )
            records.append(record)
    place = {name: number for number, name in enumerate(settings.measures)}
    return sorted(records, key=lambda record: (record.split != "in-sample", place[record.measure]))


def _common_columns(scores: Scores, pair: Pair, settings: CompareSettings) -> dict[str, Any]:
    """Return the columns that are the same for all maps, or measures, of one split."""
    source, target = pair.source, pair.target
    null = scores.nulls.get(PAIR_SHUFFLES[0].name)
    return {
        "source": source.name,
        "target": target.name,
        "source_view": source.shown_view,
        "target_view": target.shown_view,
        "source_layer": source.layer,
        "target_layer": target.layer,
        "source_dim": source.dim,
        "target_dim": target.dim,
        "split": scores.split,
        "n_rows": scores.n_rows,
        "n_fit_rows": scores.n_fit_rows,
        "n_groups": scores.n_groups,
        "n_folds": 0 if scores.split == "in-sample" else max(settings.n_folds, 1),
        "n_null": 0 if null is None else len(null.shuffled),
        "null_rows": 0 if null is None else null.arrangements.kept.size,
        "smallest_p": None if null is None or null.refusal else null.smallest_p,
        "seed": settings.seed,
    }


def _p_values(scores: Scores, number: int, *, is_tested: bool) -> dict[str, Any]:
    """Return the p-values of a map or measure by column, where shuffling can test it."""
    p_values: dict[str, float | None] = {}
    for kind in PAIR_SHUFFLES:
        null = scores.nulls.get(kind.name)
        p_values[kind.p_value] = None
        if is_tested and null is not None:
            p_values[kind.p_value] = _known(null.p_values()[number])
    return {"p_value": p_values.pop("p_value"), "further_p": p_values}


# Beginnings of the names of recorded options that mean nothing to a map without ICA, to a measure.
OF_ICA, OF_MAPS = ("ica_",), ("permutation_cost",)


def _conventions(settings: CompareSettings, without: tuple[str, ...]) -> dict[str, Any]:
    """Return the recorded options; those that mean nothing here are empty."""
    recorded = recorded_values(settings)
    return {name: None if name.startswith(without) else recorded[name] for name in recorded}


NO_ICA: dict[str, Any] = {
    "converged": None,
    "ica_iterations": None,
    "ica_gradient_rms": None,
    "source_rank": None,
    "target_rank": None,
    "matched_correlation": None,
    "source_starts": None,
    "target_starts": None,
    "source_agreement": None,
    "target_agreement": None,
    "source_ica_seed": None,
    "target_ica_seed": None,
}


def _ica_columns(errors: MapScores) -> dict[str, Any]:
    assert errors.ica is not None
    assert errors.maps.matching is not None
    both = errors.ica
    source, target = (side.fit for side in both)
    return {
        "converged": source.converged and target.converged,
        "source_starts": both[0].n_starts,
        "target_starts": both[1].n_starts,
        "source_agreement": both[0].agreement,
        "target_agreement": both[1].agreement,
        "ica_iterations": max(source.n_iter, target.n_iter),
        "ica_gradient_rms": max(source.gradient_rms, target.gradient_rms),
        "source_rank": source.rank,
        "target_rank": target.rank,
        "matched_correlation": float(errors.maps.matching.value.mean()),
        "source_ica_seed": source.settings.seed,
        "target_ica_seed": target.settings.seed,
    }


def _over(value: float, scale: float) -> float | None:
    return _known(float(value) / scale) if scale > 0 else None


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _measure_interval(scores: Scores, number: int, measure: Measure) -> Interval | None:
    is_in_sample = scores.split == "in-sample"
    replicates = scores.halves if is_in_sample else scores.left_out
    if replicates is None or (is_in_sample and not measure.has_in_sample_interval):
        return None
    within = measure.range_in(scores.split)
    return replicates.interval(lambda values: values[..., number], within=within)


def report_of(
    pair: Pair,
    total: PairMoments,
    judged: Sequence[MapScores],
    scale: Scale,
) -> PairReport:
    """Return the report of a pair; its warnings come later, when all of them are known."""
    errors = judged[0] if judged else None
    rotations = judged[-1].rotations if judged else None
    source, target = pair.source, pair.target
    ends = scale.diameter.first_row, scale.diameter.second_row
    # by id, else by sample number, and by token where there is one
    row_names = [pair.index.name_of(row) for row in ends]
    matching = None if errors is None else errors.maps.matching
    return PairReport(
        source=_provenance(source),
        target=_provenance(target),
        join=asdict(pair.report),
        n_rows=pair.n_rows,
        diameter=scale.diameter.value,
        diameter_upper=scale.diameter.upper,
        diameter_exact=scale.diameter.exact,
        diameter_rows=(row_names[0], row_names[1]),
        rms_radius=scale.rms_radius,
        diameter_99=scale.diameter_99,
        ica=() if errors is None else _ica_reports(errors.ica, pair),
        matched_correlations=() if matching is None else tuple(matching.value.tolist()),
        null_errors=_null_errors(judged),
        matched_identifiable=() if errors is None else _matched_identifiable(errors),
        rotated_efficiencies=() if rotations is None else tuple(rotations.rotated.tolist()),
        spectra={
            # variances along the principal directions of both sides, falling
            side: tuple(eigvalsh(scatter / total.n)[::-1].clip(min=0).tolist())
            for side, scatter in (("source", total.sxx), ("target", total.syy))
        },
        warnings=(),
    )


def _matched_identifiable(errors: MapScores) -> tuple[bool, ...]:
    """Return which matched components are less Gaussian than chance on both sides."""
    matching = errors.maps.matching
    if matching is None or errors.ica is None:
        return ()
    is_known = np.ones(len(matching.value), dtype=bool)
    for side, numbers in zip(errors.ica, (matching.source, matching.target), strict=True):
        # components stand by falling non-Gaussianity
        if side.fit.n_identifiable is not None:
            is_known &= numbers < side.fit.n_identifiable
    return tuple(is_known.tolist())


def _null_errors(judged: Sequence[MapScores]) -> dict[str, tuple[float, ...]]:
    """Return the errors on shuffled pairs, over the diameter that the split's own errors have."""
    draws = {}
    for errors in judged:
        null = errors.nulls.get(PAIR_SHUFFLES[0].name)
        for number, name in enumerate(errors.names if null is not None else ()):
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


def _ica_reports(ica: tuple[SpaceIca, SpaceIca] | None, pair: Pair) -> tuple[IcaReport, ...]:
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
