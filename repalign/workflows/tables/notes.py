"""What stands below the errors of a pair: its denominator, and how its ICA went."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repalign.workflows.compare.results import IcaReport, PairReport

WELL_MATCHED = 0.9


def pair_notes(pair: "PairReport") -> tuple[str, ...]:
    """Say in a line each what set the denominator and how the ICA of both sides went."""
    first, second = pair.diameter_rows
    exact = "exact" if pair.diameter_exact else f"at most {pair.diameter_upper:.4g}"
    spread = f"diameter {pair.diameter:.4g} ({exact}) between rows {first} and {second}"
    spread += f"; rms radius {pair.rms_radius:.4g}"
    if pair.diameter_99 is not None:
        spread += f"; 99 % of distances below {pair.diameter_99:.4g}"
    notes = [spread, *(_ica_note(report) for report in pair.ica)]
    if pair.matched_correlations:
        notes.append(_matching_note(pair.matched_correlations, pair.matched_identifiable))
    return tuple(notes)


def _matching_note(correlations: Sequence[float], identifiable: Sequence[bool]) -> str:
    """Count matches among components that mean something: chance may match all others as well."""
    mean = sum(correlations) / len(correlations)
    note = f"matched components: mean |correlation| {mean:.2f}"
    counted = [
        value for value, is_known in zip(correlations, identifiable, strict=True) if is_known
    ]
    if not counted:
        return f"{note}, which says nothing: none is less Gaussian than chance on both sides"
    good = sum(value > WELL_MATCHED for value in counted)
    both = "" if len(counted) == len(correlations) else " less Gaussian than chance on both sides"
    return f"{note}, {good} of {len(counted)}{both} above {WELL_MATCHED}"


def _ica_note(report: "IcaReport") -> str:
    state = "converged" if report.converged else "NOT converged"
    middle = sorted(report.kurtosis)[len(report.kurtosis) // 2]
    note = (
        f"ICA of the {report.side}: {state} in {report.iterations} passes (gradient "
        f"{report.gradient_rms:.0e}), rank {report.rank} of {report.dim}, median kurtosis "
        f"{middle:.2g}"
    )
    if report.identifiable is not None:
        note += f", {report.identifiable} components less Gaussian than chance"
    if report.agreement is None:
        return f"{note}; one start"
    return f"{note}; best of {report.n_starts} starts agree to {report.agreement:.2f}"
