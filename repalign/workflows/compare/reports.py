"""What stands behind the errors of a pair: who took part, the ICA, the spectra, the nulls."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from repalign.core.eigen import eigvalsh
from repalign.core.inference.kinds import PAIR_SHUFFLES
from repalign.core.inference.rotation import RotationNull
from repalign.core.moments import PairMoments
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.compare.draws import PairNulls
from repalign.workflows.compare.pairs import Pair
from repalign.workflows.compare.results import IcaReport, PairReport
from repalign.workflows.compare.scores import MapScores
from repalign.workflows.compare.space import Scale, SpaceIca


def report_of(
    pair: Pair,
    total: PairMoments,
    judged: Sequence[MapScores],
    scale: Scale,
    *,
    nulls: PairNulls | None,
    rotations: RotationNull | None,
) -> PairReport:
    """Return the report of a pair; its warnings come later, when all of them are known."""
    errors = judged[0] if judged else None
    source, target = pair.source, pair.target
    ends = scale.diameter.first_row, scale.diameter.second_row
    matching = None if errors is None else errors.maps.matching
    return PairReport(
        source=_provenance(source),
        target=_provenance(target),
        join=asdict(pair.report),
        n_rows=pair.n_rows,
        diameter=scale.diameter.value,
        diameter_upper=scale.diameter.upper,
        diameter_exact=scale.diameter.exact,
        diameter_rows=(_row_name(pair, ends[0]), _row_name(pair, ends[1])),
        rms_radius=scale.rms_radius,
        diameter_99=scale.diameter_99,
        ica=() if errors is None else _ica_reports(errors.ica, pair),
        matched_correlations=() if matching is None else tuple(matching.correlation.tolist()),
        null_errors={} if nulls is None else _null_errors(nulls, judged),
        matched_identifiable=() if errors is None else _matched_identifiable(errors),
        rotated_efficiencies=() if rotations is None else tuple(rotations.rotated.tolist()),
        spectra=_spectra(total),
        warnings=(),
    )


def _matched_identifiable(errors: MapScores) -> tuple[bool, ...]:
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


def _null_errors(nulls: PairNulls, judged: Sequence[MapScores]) -> dict[str, tuple[float, ...]]:
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


def _row_name(pair: Pair, row: int) -> str:
    """Name a row as its user does: by id, else by sample number, and by token where it has one."""
    return pair.index.slice(row, row + 1).name_of(0)


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


def _spectra(total: PairMoments) -> dict[str, tuple[float, ...]]:
    """Return the variances along the principal directions of both sides, falling."""
    return {
        side: tuple(eigvalsh(scatter / total.n)[::-1].clip(min=0).tolist())
        for side, scatter in (("source", total.sxx), ("target", total.syy))
    }
