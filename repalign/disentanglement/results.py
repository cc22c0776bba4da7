"""What ``disentangle`` returns: tidy records, the matrices behind them, the fitted transforms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from repalign.arguments import checked
from repalign.disentanglement.settings import FactorSettings
from repalign.results.tidy import TidyResult, record_columns, record_row
from repalign.tables.table import Table

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from repalign.conditions.saved import Transforms


@dataclass(frozen=True)
class ScoreRecord:
    """One score of one condition of one representation; the fields are the columns of the CSV.

    ``value`` is None where ``reason`` says why. The recorded options of the settings come behind.
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
    n_groups: int
    n_null: int
    null_scheme: str | None
    null_rows: int | None
    smallest_p: float | None
    conventions: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return one row of the CSV."""
        return record_row(self)


COLUMNS = record_columns(ScoreRecord, FactorSettings)


@dataclass(frozen=True, eq=False)
class InformationMatrix:
    """Normalised mutual information of every factor (row) with every latent (column)."""

    source: str
    view: str
    condition: str
    factors: tuple[str, ...]
    latents: tuple[str, ...]
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
            "latents": list(self.latents),
            "nmi": self.nmi.tolist(),
            "pruned_latents": list(self.pruned),
        }


@dataclass(frozen=True, repr=False)
class DisentangleResult(TidyResult):
    """Scores with every convention, and what a reader must know before believing them.

    Attributes:
        records: One for each source, condition, score and seed.
        settings: What was asked for.
        warnings: Sentences that belong next to the scores.
        matrices: What every latent knows of every factor, by source and condition.
        transforms: The fitted affine map by source, view and condition.

    Example:
        >>> import numpy as np, repalign
        >>> size = np.random.default_rng(0).normal(size=100)
        >>> latents = np.stack([size, -size], axis=1)
        >>> result = repalign.disentangle(
        ...     latents, {"size": size}, conditions="raw", scores="mcc", halves=0
        ... )
        >>> [(record.score, round(record.value, 3)) for record in result.records]
        [('MCC-pearson', 1.0), ('MCC-spearman', 1.0)]
    """

    columns: ClassVar = COLUMNS

    records: tuple[ScoreRecord, ...]
    settings: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    matrices: tuple[InformationMatrix, ...] = ()
    transforms: "Transforms" = field(default_factory=dict)

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

    @checked
    def plot(self, path: str | Path | None = None) -> "Figure":
        """Draw what latents know of factors, one picture for each condition.

        It is written to ``path`` (.png, .pdf, .svg) where one is given.
        """
        from repalign.figures.information import plot_information
        from repalign.figures.style import write_figure

        return write_figure(plot_information(self.matrices), path)

    def tables(self) -> Sequence[Table]:
        """Return the tables that people read."""
        from repalign.tables.scores import score_tables

        return score_tables(self)

    def paper_tables(self) -> Sequence[Table]:
        """Return the scores in the layout of the paper's Table 2."""
        from repalign.tables.scores import paper_tables

        return paper_tables(self)
