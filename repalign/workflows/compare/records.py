"""From error norms to tidy records: denominators, intervals, nulls, efficiency, conventions."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np

from repalign.aliases import FloatArray
from repalign.core.errors.efficiency import ica_efficiency
from repalign.core.inference.gaussian_twin import TwinNull
from repalign.core.inference.kinds import PAIR_SHUFFLES
from repalign.core.inference.left_out import Claim, Interval, Statistic
from repalign.core.inference.nulls import NullErrors
from repalign.core.inference.ranges import ANYWHERE, POSITIVE, Range
from repalign.core.maps.kinds import KIND_OF
from repalign.options import recorded_values
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.compare.judge import SplitErrors
from repalign.workflows.compare.nulls import PairNulls
from repalign.workflows.compare.results import ErrorRecord
from repalign.workflows.compare.settings import CompareSettings


def make_records(
    errors: SplitErrors,
    source: EmbeddingSource,
    target: EmbeddingSource,
    settings: CompareSettings,
    *,
    nulls: PairNulls | None,
    twins: Mapping[str, TwinNull],
) -> Iterator[ErrorRecord]:
    """Yield one record a map, in the order in which the maps were asked for."""
    summary = Summary(errors)
    first, *others = PAIR_SHUFFLES
    null = None if nulls is None else nulls.of(first.name, errors.split)
    further = {
        kind.p_value: None if nulls is None else nulls.of(kind.name, errors.split)
        for kind in others
    }
    twin = twins.get(errors.split, TwinNull(()))
    for number, name in enumerate(errors.norms):
        scale = errors.scales[name]
        is_ica = KIND_OF[name].needs_ica
        interval = summary.error_interval(number)
        efficiency, efficiency_interval = summary.efficiency(name)
        yield ErrorRecord(
            source=source.name,
            target=target.name,
            source_view=source.shown_view,
            target_view=target.shown_view,
            n_rows=errors.groups.size,
            source_dim=source.dim,
            target_dim=target.dim,
            map=name,
            split=errors.split,
            error=_known(summary.errors[number]),
            ci_low=_known(interval.low),
            ci_high=_known(interval.high),
            null=None if null is None else _over(null.means()[number], scale.diameter.value),
            p_value=_p_value(null, number, name),
            efficiency=efficiency,
            efficiency_low=_known(efficiency_interval.low),
            efficiency_high=_known(efficiency_interval.high),
            diameter=scale.diameter.value,
            converged=_converged(errors) if is_ica else None,
            seed=settings.seed,
            efficiency_null=_known(twin.mean) if name == "ica" else None,
            error_over_rms_radius=_over(summary.means[number], scale.rms_radius),
            diameter_upper=scale.diameter.upper,
            diameter_99=_known(scale.diameter_99),
            rms_radius=scale.rms_radius,
            n_fit_rows=errors.n_fit_rows,
            n_folds=0 if errors.split == "in-sample" else max(settings.n_folds, 1),
            n_null=0 if null is None else len(null.shuffled),
            null_rows=0 if null is None else null.arrangements.kept.size,
            null_observed=(
                None if null is None else _over(null.observed[number], scale.diameter.value)
            ),
            efficiency_null_sd=_known(twin.spread) if name == "ica" else None,
            n_twins=len(twin.values) if name == "ica" else None,
            efficiency_p=(
                None if name != "ica" or efficiency is None else _known(twin.p_value(efficiency))
            ),
            start_half_width=summary.start_half_width(name),
            efficiency_start_half_width=(
                None if efficiency is None else summary.efficiency_start_half_width(name)
            ),
            n_groups=summary.n_groups,
            ci_claim=None if _known(interval.low) is None else interval.claim.value,
            n_halves=summary.n_samples(name, "halves"),
            n_quarters=summary.n_samples(name, "quarters"),
            smallest_p=None if null is None or null.refusal else null.smallest_p,
            further_p={column: _p_value(each, number, name) for column, each in further.items()},
            **_ica_columns(errors) if is_ica else _NO_ICA,
            source_layer=source.layer,
            target_layer=target.layer,
            conventions=_conventions(settings, is_ica=is_ica),
        )


class Summary:
    """Mean errors over their diameters, and what they are without each group."""

    def __init__(self, errors: SplitErrors) -> None:
        self.names = list(errors.norms)
        norms = np.stack([errors.norms[name] for name in self.names])
        self.means = norms.mean(axis=1)
        self.diameters = np.array([errors.scales[name].diameter.value for name in self.names])
        self.errors = _ratio(self.means, self.diameters)
        self.n_groups = int(np.count_nonzero(np.bincount(errors.groups)))
        self.left_out = errors.left_out
        self.start_half_widths = errors.start_half_widths
        self.has_components = _has_components(errors)

    def start_half_width(self, name: str) -> float | None:
        """Return how far the error of another run of starts may be off; None where unknown."""
        half, diameter = self.start_half_widths.get(name), self.diameters[self.names.index(name)]
        return None if half is None else _over(half, diameter)

    def efficiency_start_half_width(self, name: str) -> float | None:
        """Return the same of the efficiency."""
        half = self.start_half_width(name)
        if half is None or not {"permutation", "rigid"} <= set(self.names):
            return None
        permutation, rigid = (
            self.errors[self.names.index(other)] for other in ("permutation", "rigid")
        )
        return _over(half, float(permutation - rigid))

    def error_interval(self, number: int) -> Interval:
        """Return the interval of the error of one map."""
        is_held_out = self.left_out is not None and self.left_out.claim is Claim.FITTED_MAP
        name = self.names[number]
        return self._interval(
            name,
            lambda means: _ratio(means[..., number], self.diameters[number]),
            within=POSITIVE if is_held_out else ANYWHERE,
            by_starts=self.start_half_width(name),
        )

    def n_samples(self, name: str, what: Literal["halves", "quarters"]) -> int | None:
        """Return how many parts of the pair are behind the in-sample intervals of an ICA map."""
        found = self.left_out
        if found is None or found.claim is Claim.FITTED_MAP or not KIND_OF[name].needs_ica:
            return None
        errors: FloatArray | None = getattr(found, what)
        return 0 if errors is None else errors[..., 0].size

    def efficiency(self, name: str) -> tuple[float | None, Interval]:
        """Return the efficiency of an ICA map with its interval, where both are defined."""
        if not KIND_OF[name].needs_ica or not {"permutation", "rigid"} <= set(self.names):
            return None, NO_INTERVAL
        if not self.has_components:
            return None, NO_INTERVAL
        columns = [self.names.index(other) for other in ("permutation", "rigid", name)]

        def of(means: FloatArray) -> FloatArray:
            errors = _ratio(means, self.diameters)
            permutation, rigid, ica = (errors[..., column] for column in columns)
            return ica_efficiency(permutation, rigid, ica)

        value = _known(float(of(self.means)))
        if value is None:
            return None, NO_INTERVAL
        by_starts = self.efficiency_start_half_width(name)
        return value, self._interval(name, of, within=ANYWHERE, by_starts=by_starts)

    def _interval(
        self, name: str, of: Statistic, *, within: Range, by_starts: float | None
    ) -> Interval:
        """Return the interval of a statistic of one map, by rows and starts, or by halves."""
        if self.left_out is None:
            return NO_INTERVAL
        found = self.left_out.interval(of, within=within)
        if not KIND_OF[name].needs_ica:
            return found
        value = float(of(self.means))
        if by_starts is not None:
            found = found.widened(value, by_starts)
        return found.reaching(value, self.left_out.reach(of))


NO_INTERVAL = Interval(float("nan"), float("nan"), Claim.FITTED_MAP, 0)
_NO_ICA: dict[str, Any] = {
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


def _conventions(settings: CompareSettings, *, is_ica: bool) -> dict[str, Any]:
    """Return the recorded options; those of ICA are empty where the map needs none."""
    recorded = recorded_values(settings)
    return {
        name: value if is_ica or not name.startswith("ica_") else None
        for name, value in recorded.items()
    }


def _has_components(errors: SplitErrors) -> bool:
    """Whether ICA has found anything on either side; where that is not known it may have."""
    return errors.ica is None or any(side.fit.n_identifiable != 0 for side in errors.ica)


def efficiency_of(errors: SplitErrors) -> float:
    """Return the ICA efficiency as it is recorded, whatever ICA found; NaN where undefined."""
    summary = Summary(errors)
    summary.has_components = True
    value, _ = summary.efficiency("ica")
    return float("nan") if value is None else value


def _ica_columns(errors: SplitErrors) -> dict[str, Any]:
    assert errors.ica is not None
    assert errors.maps.matching is not None
    both = errors.ica
    source, target = (side.fit for side in both)
    return {
        "source_starts": both[0].n_starts,
        "target_starts": both[1].n_starts,
        "source_agreement": both[0].agreement,
        "target_agreement": both[1].agreement,
        "ica_iterations": max(source.n_iter, target.n_iter),
        "ica_gradient_rms": max(source.gradient_rms, target.gradient_rms),
        "source_rank": source.rank,
        "target_rank": target.rank,
        "matched_correlation": errors.maps.matching.mean_correlation,
        "source_ica_seed": source.settings.seed,
        "target_ica_seed": target.settings.seed,
    }


def _converged(errors: SplitErrors) -> bool:
    return errors.ica is not None and all(side.fit.converged for side in errors.ica)


def _p_value(null: NullErrors | None, number: int, name: str) -> float | None:
    """Return the p-value of a map, unless it uses no pairing that could be tested."""
    if null is None or not KIND_OF[name].is_paired:
        return None
    return _known(null.p_values()[number])


def _ratio(values: FloatArray, scale: FloatArray | float) -> FloatArray:
    """Divide; where the scale is zero nothing varies, and the ratio is undefined."""
    scales = np.asarray(scale, dtype=np.float64)
    return np.divide(values, np.where(scales > 0, scales, np.nan))


def _over(value: float, scale: float) -> float | None:
    return _known(float(value) / scale) if scale > 0 else None


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
