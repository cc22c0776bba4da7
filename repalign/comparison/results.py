"""What ``compare`` returns: tidy error records, what stands behind them, and their renderings."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from repalign.arguments import checked
from repalign.comparison.settings import CompareSettings
from repalign.core.measures import Better
from repalign.core.resampling.kinds import PAIR_SHUFFLES
from repalign.options import recorded_columns
from repalign.printable import printable
from repalign.results.tidy import TidyResult
from repalign.tables.errors import error_table, pair_notes
from repalign.tables.formats import Shown
from repalign.tables.matrix import Matrix, make_matrix
from repalign.tables.measures import measures_table
from repalign.tables.records import sealed
from repalign.tables.table import Table, side_name
from repalign.tables.warnings import fold_warnings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repalign.core.affine import AffineMap
    from repalign.store.index import RowIndex


@dataclass(frozen=True)
class ErrorRecord:
    """One map, fitted and judged in one way, between one pair of views.

    The fields are the columns of the CSV, in order, and the recorded options of the settings
    come behind; ``docs/results.md`` explains each. A value that is undefined is None.
    ``further_p`` has a column for every shuffle of pairs in ``NULLS`` but the first.
    """

    source: str
    target: str
    source_view: str
    target_view: str
    n_rows: int
    source_dim: int
    target_dim: int
    map: str
    split: str
    error: float | None
    ci_low: float | None
    ci_high: float | None
    null: float | None
    p_value: float | None
    efficiency: float | None
    efficiency_low: float | None
    efficiency_high: float | None
    diameter: float
    converged: bool | None
    seed: int
    efficiency_null: float | None
    error_over_rms_radius: float | None
    rms_low: float | None
    rms_high: float | None
    diameter_upper: float
    diameter_99: float | None
    rms_radius: float
    n_fit_rows: int
    n_folds: int
    n_null: int
    null_rows: int
    null_observed: float | None
    efficiency_null_sd: float | None
    n_rotations: int | None
    efficiency_p: float | None
    n_groups: int
    n_halves: int | None
    smallest_p: float | None
    further_p: Mapping[str, float | None]
    ica_iterations: int | None
    ica_gradient_rms: float | None
    source_rank: int | None
    target_rank: int | None
    matched_correlation: float | None
    source_starts: int | None
    target_starts: int | None
    source_agreement: float | None
    target_agreement: float | None
    source_ica_seed: int | None
    target_ica_seed: int | None
    source_layer: int | None
    target_layer: int | None
    conventions: Mapping[str, Any]
    p_search: float | None = None
    n_searched: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return one row of the CSV."""
        known = {**vars(self), **self.further_p}
        told = {name: known[name] for name in _OWN_COLUMNS}
        return told | dict(self.conventions)


Side = Literal["source", "target"]
# More pairs than this are a study: a matrix instead of a table of each, a heat map instead of bars.
MOST_PAIRS = 12
Order = Literal["layers", "cluster"]
_FURTHER = {"further_p": tuple(kind.p_value for kind in PAIR_SHUFFLES[1:]), "conventions": ()}
_OWN_COLUMNS = tuple(
    name for each in fields(ErrorRecord) for name in _FURTHER.get(each.name, (each.name,))
)
COLUMNS = (*_OWN_COLUMNS, *recorded_columns(CompareSettings))


@dataclass(frozen=True)
class MeasureRecord:
    """One measure of one pair of views, judged in one way.

    The fields have the meaning of those of ``ErrorRecord``; what stands there as ``map`` and
    ``error`` is empty here. ``null`` and ``null_observed`` are values of the measure.

    Attributes:
        measure: Its name, with its number.
        value: The value on ``n_rows`` rows.
        better: ↑ where higher is closer, ↓ where lower is.
    """

    source: str
    target: str
    source_view: str
    target_view: str
    n_rows: int
    source_dim: int
    target_dim: int
    split: str
    ci_low: float | None
    ci_high: float | None
    null: float | None
    p_value: float | None
    seed: int
    n_fit_rows: int
    n_folds: int
    n_null: int
    null_rows: int
    null_observed: float | None
    n_groups: int
    smallest_p: float | None
    further_p: Mapping[str, float | None]
    measure: str
    value: float | None
    better: str
    source_layer: int | None
    target_layer: int | None
    conventions: Mapping[str, Any]
    p_search: float | None = None
    n_searched: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the cells of one row of the CSV that are not empty by nature."""
        nested = ("further_p", "conventions")
        cells = {name: value for name, value in vars(self).items() if name not in nested}
        return cells | dict(self.further_p) | dict(self.conventions)


OWN_COLUMNS = ("measure", "value", "better")
"""Columns that stand behind those of maps where there are measures."""


@dataclass(frozen=True)
class IcaReport:
    """How the ICA of one side went."""

    side: str
    rows: str
    solver: str
    contrast: str
    converged: bool
    iterations: int
    gradient_rms: float
    rank: int
    dim: int
    identifiable: int | None
    kurtosis: tuple[float, ...]
    n_starts: int
    agreement: float | None
    n_fit_rows: int
    seed: int


@dataclass(frozen=True)
class PairReport:
    """All that is known of one pair besides its errors."""

    source: Mapping[str, Any]
    target: Mapping[str, Any]
    join: Mapping[str, Any]
    n_rows: int
    diameter: float
    diameter_upper: float
    diameter_exact: bool
    diameter_rows: tuple[str, str]
    rms_radius: float
    diameter_99: float | None
    ica: tuple[IcaReport, ...]
    matched_correlations: tuple[float, ...]
    null_errors: Mapping[str, tuple[float, ...]]
    matched_identifiable: tuple[bool, ...]
    rotated_efficiencies: tuple[float, ...]
    spectra: Mapping[str, tuple[float, ...]]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class MatchRecord:
    """The best match of one view among the views of another model, by one map or measure.

    Attributes:
        model: Model of the view.
        view: The view.
        layer: Its layer, where that is known.
        side: Whether the view is the source of the pairs that were compared, or their target.
        other: The other model.
        by: Map or measure.
        split: How it was judged.
        best: The view of the other model that matches best.
        best_layer: Its layer, where that is known.
        value: What compares the candidates: the error over the rms radius of its target (errors
            over diameters of different targets do not compare), or the value of the measure.
        column: The column of the records that holds it.
        better: ↑ where a higher value is closer, ↓ where a lower one is.
        n_candidates: Views of the other model that were compared.
        plausible: Those that cannot be excluded from being the best: in 95 % of samples the truly
            best one is among them. None where that is not known.
        p_search: The p-value of the best pair among all layer pairs.
        note: Why it is not known which can be excluded.
    """

    model: str
    view: str
    layer: int | None
    side: Side
    other: str
    by: str
    split: str
    best: str
    best_layer: int | None
    value: float
    column: str
    better: Better
    n_candidates: int
    plausible: tuple[str, ...] | None
    p_search: float | None
    note: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return one row of the CSV; several views are one text."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return told | {"plausible": None if self.plausible is None else ", ".join(self.plausible)}


@dataclass(frozen=True, repr=False)
class CompareResult(TidyResult):
    """The errors of every pair, map and split, with every convention and its provenance.

    ``measures`` holds the values of the measures of similarity, where any were asked for, and
    ``maps``, for every pair in the order of ``pairs``, the maps fitted on all rows, or on those
    of ``map_rows``; nothing where those of so many pairs would take more than half of the memory
    cap. ``fitted_rows`` says for every pair which rows fitted these maps. ``matches``
    says which layer of another model matches each layer best, where there are several, and
    ``request`` is the command that asked for it, empty where that was no command.

    Example:
        >>> import numpy as np, repalign
        >>> x = np.random.default_rng(0).laplace(size=(200, 3))
        >>> result = repalign.compare(x, x + 1, maps=["mean", "rigid"], names=("A", "B"))
        >>> result
        <CompareResult of A → B, 200 rows: 4 records, 1 warning; print it for the table>
        >>> frame = result.to_frame().set_index(["map", "split"])
        >>> bool(frame.error["rigid", "held-out"] < 1e-9)
        True
        >>> result.maps[0]["rigid"].apply(x).shape
        (200, 3)
    """

    records: tuple[ErrorRecord, ...]
    pairs: tuple[PairReport, ...]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    maps: tuple[Mapping[str, "AffineMap"], ...] = ()
    request: Mapping[str, Any] = field(default_factory=dict)
    measures: tuple[MeasureRecord, ...] = ()
    matches: tuple[MatchRecord, ...] = ()
    fitted_rows: tuple["RowIndex", ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns of the CSV: where there are measures, theirs stand behind."""
        return (*COLUMNS, *OWN_COLUMNS) if self.measures else COLUMNS

    def to_records(self) -> list[dict[str, Any]]:
        """Return the records of maps, then those of measures, one a row of the CSV."""
        told = [record.to_dict() for record in self.records]
        told += [record.to_dict() for record in self.measures]
        return [{name: record.get(name) for name in self.columns} for record in told]

    @property
    def warnings(self) -> tuple[str, ...]:  # type: ignore[override]
        """What a reader must know before believing the numbers, without repetition."""
        return tuple(dict.fromkeys(text for pair in self.pairs for text in pair.warnings))

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON, with a digest of it."""
        document = {
            "format": "repalign-compare",
            "format_version": 1,
            "settings": dict(self.settings),
            "versions": dict(self.versions),
            "request": dict(self.request),
            "warnings": list(self.warnings),
            "records": [record.to_dict() for record in self.records],
            "measures": [record.to_dict() for record in self.measures],
            "matches": [asdict(match) for match in self.matches],
            "pairs": [asdict(pair) for pair in self.pairs],
        }
        return sealed(document)

    def error_table(self) -> Table:
        """Return the errors in the paper's layout."""
        return error_table(
            [record.to_dict() for record in self.records], [pair_notes(pair) for pair in self.pairs]
        )

    def measures_table(self) -> Table:
        """Return the measures of similarity."""
        return measures_table([record.to_dict() for record in self.measures])

    def shown(self, show: str | None = None) -> Shown:
        """Return the result in the shapes that formats want; ``show`` is what a matrix holds."""
        return replace(
            super().shown(),
            tables=lambda: self._tables(show),
            paper_tables=None,
            matrix=lambda: self.matrix(show),
        )

    @property
    def is_study(self) -> bool:
        """Whether the pairs are so many that tables show one number of each."""
        return len(self.pairs) > MOST_PAIRS

    def shown_warnings(self) -> list[str]:
        """Return the warnings that stand below tables: one line for alike ones of many pairs."""
        texts = [text for pair in self.pairs for text in pair.warnings]
        names = [side["name"] for pair in self.pairs for side in (pair.source, pair.target)]
        return fold_warnings(texts, names)

    def tables(self) -> list[Table]:
        """Return the tables that people read: the paper's and the measures, or a matrix."""
        return self._tables()

    def _tables(self, show: str | None = None) -> list[Table]:
        if self.is_study:
            return list(self.matrix(show).tables())
        tables = [self.error_table()] if self.records else []
        return tables + ([self.measures_table()] if self.measures else [])

    def size(self) -> str:
        """Say what was compared."""
        if len(self.pairs) != 1:
            return f"{len(self.pairs)} pairs"
        first = self.to_records()[0]
        sides = [printable(side_name(first, side)) for side in ("source", "target")]
        return f"{' → '.join(sides)}, {self.pairs[0].n_rows} rows"

    @checked
    def matrix(self, show: str | None = None) -> Matrix:
        """Return one quantity of every pair of views as a matrix; by default the rigid error."""
        return make_matrix(self.to_records(), show)

    @checked
    def plot(
        self, path: str | Path | None = None, *, show: str | None = None, order: Order = "layers"
    ) -> "Figure":
        """Draw the result, and write it to ``path`` (.png, .pdf, .svg) where one is given.

        A few pairs are bars: errors by map, in-sample next to held-out, with intervals and nulls.
        Many pairs, or one quantity to ``show``, are a heat map; ``order="cluster"`` puts similar
        views of it together.
        """
        from repalign.figures.errors import plot_errors
        from repalign.figures.matrix import plot_matrix
        from repalign.figures.style import write_figure

        if show is None and order == "layers" and self.records and not self.is_study:
            return write_figure(plot_errors([record.to_dict() for record in self.records]), path)
        return write_figure(plot_matrix(self.matrix(show), order=order), path)
