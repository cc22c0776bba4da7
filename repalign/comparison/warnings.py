"""What a reader of the numbers of one pair must know before believing them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repalign.aliases import Rows
from repalign.comparison.pairs import Pair
from repalign.comparison.results import ErrorRecord
from repalign.comparison.scores import MapScores, Scores
from repalign.comparison.settings import CompareSettings
from repalign.core.maps import KIND_OF
from repalign.core.moments import PairMoments
from repalign.core.resampling.intervals import count_groups
from repalign.core.resampling.rotations import RotationNull
from repalign.core.resampling.sample import Sample
from repalign.store.source import EmbeddingSource

FEW_ROWS_PER_COLUMN = 5
OUTLIER_RATIO = 2.0
# Of the source's variance: more than rounding to half precision makes.
FREE_SHARE = 1e-6
LARGEST_CHANCE = 0.05
CLEARLY = 1.02
# The squared errors of a permutation are at most those of the mean and of the source together: from
# this ratio on the source is √3 times wider or more. One so many times narrower predicts nothing.
UNSCALED_RATIO, NARROW_RATIO = 2.0, 5.0
TESTED_MAPS = ("permutation", "rigid", "linear")
AGREEING = 0.95


def warn_of_pair(
    pair: Pair,
    sample: Sample,
    judged: Sequence[MapScores],
    measured: Sequence[Scores],
    records: Sequence[ErrorRecord],
    settings: CompareSettings,
    *,
    of_nulls: Sequence[str],
    of_measures: Sequence[str],
) -> list[str]:
    """Return every warning of one direction of a pair; of a collapsed side nothing else."""
    source, target, total = pair.source, pair.target, sample.total
    of_sources = warn_of_sources(source, target)
    collapse = warn_of_collapse(total, source.name, target.name)
    if collapse:
        return [*of_sources, *collapse]
    texts = of_sources
    if judged and judged[0].ica is not None:
        texts += [warning for side in judged[0].ica for warning in side.fit.warnings]
    if settings.n_halves != 0:
        texts += warn_of_groups(judged, measured)
    if settings.n_halves != 0 or settings.n_null != 0:
        texts += warn_of_series(sample)
    texts += [*of_nulls, *warn_of_free_directions(judged, total)]
    energies = np.trace(total.sxx), np.trace(total.syy)
    width = float(np.sqrt(energies[0] / energies[1]))  # both sides vary
    rotations = judged[-1].rotations if judged else None
    texts += warn_of_errors(records, rotations, width)
    texts += warn_of_components(judged[0]) if judged else []
    return [*texts, *of_measures]


def warn_of_errors(
    records: Sequence[ErrorRecord], rotations: RotationNull | None, width: float = 1.0
) -> list[str]:
    """Warn of what errors, and how much wider the source is, show: few rows, outliers, nulls."""
    by_key = {(record.split, record.map): record for record in records}
    texts = [*_warn_of_rows(by_key), *_warn_of_diameter(records)]
    texts += [*_warn_of_scale(by_key, width), *_warn_of_pairing(by_key)]
    ica = by_key.get(("in-sample", "ica"))
    if ica is not None and ica.converged is False:
        texts.append(
            f"ICA did not converge (gradient rms {ica.ica_gradient_rms:.1e}, "
            f"{ica.ica_iterations} passes): its errors, marked *, may be far from the optimum's"
        )
    if ica is not None and ica.efficiency is not None:
        texts += _warn_of_starts(ica)
    held_out = by_key.get(("held-out", "ica"))
    if held_out is not None and rotations is not None:
        texts += _warn_of_efficiency(held_out)
    return texts


def warn_of_components(errors: MapScores) -> list[str]:
    """Say why there is no ICA efficiency where ICA found nothing on either side."""
    if errors.ica is None or errors.has_components:
        return []
    rows, rank = errors.ica[0].fit.n_fit_rows, errors.ica[0].fit.rank
    return [
        f"no ICA efficiency: neither side has a component that is less Gaussian than those which "
        f"ICA finds in Gaussian rows of this size ({rows} rows, {rank} components)"
    ]


def warn_of_free_directions(judged: Sequence[MapScores], total: PairMoments) -> list[str]:
    """Warn where the rows leave part of a rigid map to a convention, and how much depends on it.

    Directions in which nothing varies although there are rows enough, as of a LayerNorm, are
    not named: no error depends on them.
    """
    texts = []
    for errors in judged:
        fitted = [
            fitted_map for fitted_map in errors.maps.by_name.values() if fitted_map.free is not None
        ]
        if not fitted or fitted[0].free is None or fitted[0].free.shape[1] == 0:
            continue
        free, width = fitted[0].free, min(total.source_dim, total.target_dim)
        spread = float(np.trace(total.sxx))
        share = float(np.sum(free * (total.sxx @ free))) / spread if spread > 0 else 0.0
        share = share if share > FREE_SHARE else 0.0
        if share == 0 and errors.n_fit_rows > width:
            continue
        holding = f" which hold {100 * share:.2g} % of the source's variance," if share > 0 else ""
        texts.append(
            f"{errors.split}, {errors.n_fit_rows} rows determine the rigid map in "
            f"{len(free) - free.shape[1]} of {width} directions; in the others,{holding} it leaves "
            "columns as nearly as they are as it can, by convention; use more rows"
        )
    return texts


def _warn_of_starts(ica: ErrorRecord) -> list[str]:
    """Warn where starts of ICA do not find the same components."""
    agreement = min(ica.source_agreement or 1, ica.target_agreement or 1)
    if agreement >= AGREEING:
        return []
    return [
        f"the best starts of ICA agree to {agreement:.2f} only: single components depend on the "
        "start; the saved ICA map is that of the best contrasts"
    ]


def _warn_of_rows(by_key: Mapping[tuple[str, str], ErrorRecord]) -> list[str]:
    texts = []
    linear = by_key.get(("in-sample", "linear"))
    if linear is not None and linear.n_fit_rows < FEW_ROWS_PER_COLUMN * linear.source_dim:
        texts.append(
            f"{linear.n_fit_rows} rows fit maps of {linear.source_dim} columns: in-sample errors "
            "are too small, the linear one most; read the held-out ones"
        )
    held_out, mean = by_key.get(("held-out", "linear")), by_key.get(("held-out", "mean"))
    if _is_clearly_above(held_out, mean):
        texts.append(
            "held out, the linear map is worse than predicting the mean: it was overfitted, and "
            "its in-sample error says nothing"
        )
    return texts


def _warn_of_scale(by_key: Mapping[tuple[str, str], ErrorRecord], width: float) -> list[str]:
    """Warn of a permutation that fails for the scale alone, and name the map that has one."""
    mean, unscaled = by_key.get(("in-sample", "mean")), by_key.get(("in-sample", "permutation"))
    if unscaled is None or unscaled.error is None:
        return []
    ratio = unscaled.error / mean.error if mean is not None and mean.error else 0.0
    failure = f"predicts little but the mean, because the target is {1 / width:.2g} times"
    if ratio > UNSCALED_RATIO:
        failure = (
            f"errs {ratio:.2g} times as much as the mean, because the source is about that much"
        )
    elif width * NARROW_RATIO >= 1:
        return []
    is_shown = ("in-sample", "permutation+scale") in by_key
    advice = "read permutation+scale" if is_shown else "add permutation+scale to --maps"
    return [
        f"the permutation {failure} wider than the other side and a permutation has no scale; "
        f"{advice}"
    ]


def _warn_of_diameter(records: Sequence[ErrorRecord]) -> list[str]:
    first = next((record for record in records if not KIND_OF[record.map].in_components), None)
    if first is None or not first.diameter_99:
        return []
    ratio = first.diameter / first.diameter_99
    if ratio < OUTLIER_RATIO:
        return []
    return [
        f"the diameter is {ratio:.1f} times the 99 % distance: a few outlying rows set it, and "
        "every error looks that much smaller; read error_over_rms_radius"
    ]


def _warn_of_pairing(by_key: Mapping[tuple[str, str], ErrorRecord]) -> list[str]:
    """Say in words where shuffled pairs do as well as the observed ones."""
    split = "held-out" if any(key[0] == "held-out" for key in by_key) else "in-sample"
    tested = [
        record
        for (kind, name), record in by_key.items()
        if kind == split and name in TESTED_MAPS and record.p_value
    ]
    if not tested or any((record.p_value or 0) <= LARGEST_CHANCE for record in tested):
        return []
    smallest = min(record.p_value or 1 for record in tested)
    if any(
        record.n_null < 1 / LARGEST_CHANCE - 1 and smallest == _floor(record) for record in tested
    ):
        return []
    return [
        f"{split}, no map does better on the true pairs than on shuffled ones (smallest p "
        f"{smallest:.2g}): on these rows the two representations look unrelated"
    ]


def _floor(record: ErrorRecord) -> float:
    return 1 / (record.n_null + 1)


def _warn_of_efficiency(ica: ErrorRecord) -> list[str]:
    """Warn where the held-out efficiency is not above that of rotated components."""
    if ica.efficiency is None or ica.efficiency_p is None or ica.efficiency_p <= LARGEST_CHANCE:
        return []
    return [
        f"held-out, the ICA efficiency of {100 * ica.efficiency:.0f} % is not above chance "
        f"(p {ica.efficiency_p:.2g}): components rotated at random do as well"
    ]


def _is_clearly_above(first: ErrorRecord | None, second: ErrorRecord | None) -> bool:
    if first is None or second is None or first.error is None or second.error is None:
        return False
    return first.error > CLEARLY * second.error


# Rows that are looked at for a series, and the lag-one correlation from which they look like one.
SERIES_ROWS, SERIES_CORRELATION = 5000, 0.15


def warn_of_groups(judged: Sequence[MapScores], measured: Sequence[Scores]) -> list[str]:
    """Warn where there are too few groups of rows for intervals."""
    counts = [(errors.split, count_groups(errors.groups)) for errors in judged]
    counts += [
        (scores.split, replicates.groups)
        for scores in measured
        if (replicates := scores.halves or scores.left_out) is not None
    ]
    return [f"{split}, {count.refusal}" for split, count in counts if count.refusal is not None]


def warn_of_series(sample: Sample) -> list[str]:
    """Warn where rows that stand next to each other are alike on both sides, without groups."""
    groups = sample.groups
    n_rows = min(groups.size, SERIES_ROWS)
    if np.unique(groups).size < groups.size or n_rows < 20:
        return []
    source, target = (lag_one_correlation(side, n_rows) for side in (sample.source, sample.target))
    if min(source, target) < max(SERIES_CORRELATION, 4 / np.sqrt(n_rows)):
        return []
    return [
        f"rows next to each other are alike on both sides (lag-one correlation {source:.2f} and "
        f"{target:.2f}): if they come in series or groups, p-values and intervals are too small; "
        "name the groups (--groups, in Python groups=)"
    ]


def lag_one_correlation(rows: Rows, n_rows: int) -> float:
    """Return the correlation of rows with the next ones, over the first rows."""
    values = rows.read(0, n_rows).astype(np.float64)
    values -= values.mean(axis=0)
    energy = float(np.sum(values**2))
    return float(np.sum(values[1:] * values[:-1])) / energy if energy > 0 else 0.0


MODEL_KEYS = ("file_sha256",)
# Parts that should agree, with the keys in them that only say how a library calls the thing.
SPEC_PARTS_THAT_SHOULD_AGREE: dict[str, tuple[str, ...]] = {
    "view": ("family", "module", "side"),
    "preprocess": ("name",),
    "tokenizer": (),
    "dataset": (),
}


def warn_of_sources(source: EmbeddingSource, target: EmbeddingSource) -> list[str]:
    """Warn of equal content, equal weights and views that were made in different ways."""
    names = f"{source.name} and {target.name}"
    texts = []
    is_equal = source.fingerprint == target.fingerprint
    # views of one store are compared because that was asked for
    is_within = source.name == target.name
    if is_equal and not is_within:
        texts.append(f"{names} hold exactly the same values: this compares a store with itself")
    specs = _spec_of(source), _spec_of(target)
    is_chosen = any(len(_views(side)) > 1 for side in (source, target))
    weights = [_weights(spec) for spec in specs]
    if weights[0] and weights[0] == weights[1] and not (is_equal or is_within):
        texts.append(f"{names} come from the same weights: they differ only in how they were read")
    for part, labels in SPEC_PARTS_THAT_SHOULD_AGREE.items():
        # layers that were chosen among several are compared because they differ
        ignored = (*labels, "layer") if is_chosen else labels
        first, second = (_without(spec.get(part), ignored) for spec in specs)
        if first is not None and second is not None and first != second:
            keys = _differing(first, second)
            texts.append(f"{names} differ in {part}{keys}: errors include that difference")
    return texts


def warn_of_collapse(moments: PairMoments, source: str, target: str) -> list[str]:
    """Warn of a side whose rows are all equal."""
    scatters = ((source, moments.sxx), (target, moments.syy))
    return [
        f"{name}: all {moments.n} rows are equal, so the encoder has collapsed and no number says "
        "anything about this pair; ICA was left out; check the model and its input"
        for name, scatter in scatters
        if not np.trace(scatter) > 0
    ]


def _weights(spec: Mapping[str, Any]) -> Any:
    model = spec.get("model")
    if not isinstance(model, Mapping):
        return None
    return next((model[key] for key in MODEL_KEYS if model.get(key)), None)


def _views(source: EmbeddingSource) -> Mapping[str, Any]:
    """Return how each view of a store was made; nothing where that is not recorded."""
    views = ((source.info.get("spec") or {}).get("view") or {}).get("views")
    return views if isinstance(views, Mapping) else {}


def _spec_of(source: EmbeddingSource) -> dict[str, Any]:
    """Return how a view was made; what else its store holds changes nothing in it."""
    spec: dict[str, Any] = dict(source.info.get("spec") or {})
    view = _views(source).get(source.view)
    if isinstance(view, Mapping):
        others = {key: value for key, value in spec["view"].items() if key != "views"}
        spec["view"] = {**others, **view}
    return spec


def _without(value: Any, labels: Sequence[str]) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: _without(item, labels) for key, item in value.items() if key not in labels}


def _differing(first: Any, second: Any) -> str:
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return ""
    keys = [key for key in {**first, **second} if first.get(key) != second.get(key)]
    return f" ({', '.join(sorted(keys))})"
