"""What ``deconfound`` returns: tidy records and the fitted transforms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from repalign.deconfounding.settings import BatchSettings
from repalign.results.tidy import TidyResult, record_columns, record_row
from repalign.tables.table import Table

if TYPE_CHECKING:
    from repalign.conditions.saved import Transforms


@dataclass(frozen=True)
class BatchRecord:
    """One measure of one condition, label and protocol, over folds.

    ``measure`` is one of ``repalign.core.batches.measures``; ``top_share`` goes with the
    concentrations, and ``null`` of the batch accuracy is chance. The recorded options of the
    settings come behind.
    """

    source: str
    view: str
    label: str
    condition: str
    protocol: str
    measure: str
    top_share: float | None
    value: float | None
    sd: float | None
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
    conventions: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return one row of the CSV."""
        return record_row(self)


COLUMNS = record_columns(BatchRecord, BatchSettings)


@dataclass(frozen=True, repr=False)
class DeconfoundResult(TidyResult):
    """Measures with every convention, and what a reader must know before believing them.

    Attributes:
        records: One for each label, condition, protocol and measure.
        settings: What was asked for.
        warnings: Sentences that belong next to the table.
        transforms: The fitted affine map by source, view and condition, fitted on all rows.

    Example:
        >>> import numpy as np, repalign
        >>> plate, treated = np.repeat(np.arange(4), 30), np.tile([0, 1], 60)
        >>> cells = np.random.default_rng(0).normal(size=(120, 3)) + treated[:, None]
        >>> result = repalign.deconfound(
        ...     cells,
        ...     {"plate": plate, "treated": treated},
        ...     labels=["treated"],
        ...     batch="plate",
        ...     conditions="raw",
        ...     folds=2,
        ...     permuted=0,
        ... )
        >>> sorted(set(result.to_frame().measure))[:3]
        ['AUROC', 'AUROC-rest', 'AUROC-top']
    """

    columns: ClassVar = COLUMNS

    records: tuple[BatchRecord, ...]
    settings: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    transforms: "Transforms" = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the transforms, ready for JSON."""
        return {
            "format": "repalign-deconfound",
            "format_version": 1,
            "settings": dict(self.settings),
            "warnings": list(self.warnings),
            "records": self.to_records(),
        }

    def tables(self) -> Sequence[Table]:
        """Return the tables that people read."""
        from repalign.tables.scores import batch_tables

        return batch_tables(self)
