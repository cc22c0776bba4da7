"""What ``disentangle`` returns: tidy records, the matrices behind them, the fitted transforms."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from matplotlib.figure import Figure

    from repalign.core.maps.affine import AffineMap


@dataclass(frozen=True)
class ScoreRecord:
    """One score of one condition of one representation; the fields are the columns of the CSV.

    ``value`` is None where ``reason`` says why. All scores are better when higher.
    """

    source: str
    view: str
    condition: str
    score: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    null: float | None
    p_value: float | None
    n_rows: int
    n_latents: int
    n_active: int
    n_factors: int
    converged: bool | None
    iterations: int | None
    infomec: str
    ica_solver: str | None
    seed: int
    reason: str


@dataclass(frozen=True)
class BatchRecord:
    """One measure of one condition, label and protocol, over folds.

    ``measure`` is AUROC, Hoyer, one of the concentrations (with ``top_share``), or a control:
    AUROC-permuted, batch-accuracy (``null`` is then chance).
    """

    source: str
    view: str
    label: str
    condition: str
    protocol: str
    measure: str
    top_share: float | None
    value: float | None
    standard_error: float | None
    null: float | None
    n_folds: int
    n_rows: int
    n_positive: int
    n_batches: int
    n_features: int
    fit_on: str
    converged: bool | None
    iterations: int | None
    ica_solver: str | None
    seed: int
    reason: str


@dataclass(frozen=True, eq=False)
class InformationMatrix:
    """Normalised mutual information of every factor (row) with every latent (column)."""

    source: str
    view: str
    condition: str
    factors: tuple[str, ...]
    nmi: "np.ndarray[Any, Any]"
    active: tuple[bool, ...]

    @property
    def pruned(self) -> tuple[int, ...]:
        """The latents whose range is too small to count."""
        return tuple(number for number, active in enumerate(self.active) if not active)

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "source": self.source,
            "view": self.view,
            "condition": self.condition,
            "factors": list(self.factors),
            "nmi": self.nmi.tolist(),
            "pruned_latents": list(self.pruned),
        }


@dataclass(frozen=True)
class DisentangleResult:
    """Records with every convention, and what a reader must know before believing them.

    ``transforms`` holds the fitted affine map by source, view and condition.
    """

    records: tuple[ScoreRecord, ...] | tuple[BatchRecord, ...]
    settings: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    matrices: tuple[InformationMatrix, ...] = ()
    transforms: Mapping[tuple[str, str, str], "AffineMap"] | None = None

    def to_records(self) -> list[dict[str, Any]]:
        """Return the records as dictionaries, one a row of the CSV."""
        return [asdict(record) for record in self.records]

    def to_frame(self) -> "pandas.DataFrame":
        """Return the records as a pandas frame, one a row."""
        import pandas

        names = [field.name for field in fields(self.records[0])] if self.records else []
        return pandas.DataFrame(self.to_records(), columns=names)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the transforms, ready for JSON."""
        return {
            "format": "repalign-disentangle",
            "format_version": 1,
            "settings": dict(self.settings),
            "warnings": list(self.warnings),
            "records": self.to_records(),
            "matrices": [matrix.to_dict() for matrix in self.matrices],
        }

    def plot(self) -> "Figure":
        """Draw what latents know of factors, one picture for each condition."""
        from repalign.workflows.figures.information import plot_information

        return plot_information(self.matrices)
