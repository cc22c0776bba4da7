"""What a join found out about the rows of its sources, for results and for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from repalign.aliases import MismatchPolicy
from repalign.printable import counted
from repalign.store.rows.gathered import Access
from repalign.store.sources.source import EmbeddingSource

MatchedBy = Literal[
    "ids and hashes", "ids", "sample numbers and hashes", "sample numbers", "row order"
]


@dataclass(frozen=True)
class JoinReport:
    """How the rows of several sources were matched.

    Args:
        names: the sources, the first one giving the order.
        n_rows: rows of each source.
        n_common: rows that all sources have and that the join goes on with.
        policy: what was asked to happen if the rows differ.
        matched_by: what said which rows are the same.
        is_same_order: whether all sources hold the common rows in one order.
        n_changed: rows of one identity left out because their input hashes disagree.
        access: how the rows of each source are read.
        warnings: sentences that belong beside every number computed from the join.
    """

    names: tuple[str, ...]
    n_rows: tuple[int, ...]
    n_common: int
    policy: MismatchPolicy
    matched_by: MatchedBy
    is_same_order: bool
    n_changed: int
    access: tuple[Access, ...]
    warnings: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every row of every source takes part."""
        return all(count == self.n_common for count in self.n_rows)


def unverified_ids(source: EmbeddingSource) -> list[str]:
    """Warn of ids that lie beside the values and do not say that they belong to them."""
    if source.info.get("ids_verified", True):
        return []
    return [
        f"the ids of {source.name} are those of {source.info['ids_from']}, which does not say to "
        "which values they belong: if these were written again since, rows are confused; import "
        "both into a store to be sure (repalign store import)"
    ]


def join_warnings(report: JoinReport, sources: Sequence[EmbeddingSource]) -> tuple[str, ...]:
    """Return the sentences that a user must see beside a result."""
    warnings = []
    if report.matched_by in ("ids", "ids and hashes"):
        warnings += [text for source in sources for text in unverified_ids(source)]
    if report.matched_by == "row order":
        warnings.append(
            f"matched by row order: nothing proves that row i of {report.names[0]} and of "
            f"{' and of '.join(report.names[1:])} are the same input; give ids to be sure"
        )
    if not report.is_complete:
        shares = ", ".join(
            f"{report.n_common} of {count} rows of {name}"
            for name, count in zip(report.names, report.n_rows, strict=True)
        )
        warnings.append(f"only the common rows are used: {shares}")
    if report.n_changed:
        warnings.append(
            f"left out: {counted(report.n_changed, 'row')} with the same identity and different "
            "input hashes"
        )
    return tuple(warnings)
