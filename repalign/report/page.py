"""A result as one HTML page that needs nothing else: tables, figures, warnings, provenance.

The page itself is the template next to this module, which escapes every text; here is computed
what it shows.
"""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repalign.figures.errors import plot_errors
from repalign.figures.matrix import plot_matrix
from repalign.figures.pair import (
    plot_correlations,
    plot_kurtosis,
    plot_nulls,
    plot_spectra,
    plot_splits,
)
from repalign.figures.steps import plot_steps, training_curves
from repalign.figures.style import as_svg
from repalign.printable import printable
from repalign.results.files import PairResults, Results, read_results
from repalign.tables.errors import error_table
from repalign.tables.matrix import chosen_quantity, make_matrix
from repalign.tables.measures import measures_table
from repalign.tables.quantities import (
    SPLITS,
    Quantity,
    holds,
    quantities_in,
    reading_across_targets,
)
from repalign.tables.render import legend_lines
from repalign.tables.table import Table, interval, number

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
TEMPLATE = "page.html"
# Fewer pairs than this are seen at a glance without a map.
FEWEST_PAIRS = 3
# Beyond this many pairs the sections are closed, so that the page opens quickly.
MOST_OPEN = 8
# Figures of more pairs would take minutes to draw, and a page of hundreds of megabytes.
MOST_DRAWN = 24
# So many pairs are named below a warning; the others are counted.
MOST_NAMED = 6
# The maps that are drawn, as far as they were fitted; measures, which were asked for, all are.
MAPPED = ("rigid", "linear", "ica", "permutation")


def make_report(
    path: Path,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    show: str | None = None,
    by_revision: bool = False,
    on_note: Callable[[str], None] | None = None,
) -> str:
    """Return the page for a file of results.

    Args:
        path: The .json or .csv.
        on_progress: Called with the number of pairs that are done, and of all.
        show: Map or measure by which pairs are ranked; the rigid map where there is one.
        by_revision: Whether to draw it against the training step too.
        on_note: Called with what a reader must know of the file.

    Raises:
        InputError: The file cannot be read or holds something else, ``show`` was not measured, or
            no pair has a training step.
    """
    results = read_results(path)
    if on_note is not None:
        for note in results.notes:
            on_note(note)
    quantity = chosen_quantity(quantities_in(results.everything), show)
    splits = {record["split"] for record in results.everything if holds(record, quantity)}
    split = next(split for split in SPLITS if split in splits)
    steps = _steps(results, quantity, split) if by_revision else None
    is_study = len(results.pairs) >= FEWEST_PAIRS
    overview = _overview(results, quantity, split) if is_study else None
    pairs: list[dict[str, Any]] = []
    for place, pair in enumerate(results.pairs):
        pairs.append(_pair(pair, place))
        if on_progress is not None:
            on_progress(place + 1, len(results.pairs))
    settings = [*results.settings.items(), *results.versions.items()]
    return _template().render(
        results=results,
        steps=steps,
        overview=overview,
        pairs=pairs,
        captions=list(_captions(results)),
        settings=[(name, _plain(value)) for name, value in settings],
        most_open=MOST_OPEN,
        most_drawn=MOST_DRAWN,
        most_named=MOST_NAMED,
    )


def _template() -> "Template":
    """Return the page; every text that is put into it is made printable and escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    def visible(value: Any) -> Any:
        return printable(value) if type(value) is str else value

    environment = Environment(
        loader=PackageLoader("repalign.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        keep_trailing_newline=True,
    )
    # a browser knows the script by its digest, and runs no other
    environment.filters["sha256"] = _digest
    return environment.get_template(TEMPLATE)


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _steps(results: Results, quantity: Quantity, split: str) -> dict[str, Any]:
    """Return the figure of a quantity against the training step."""
    pairs = [(pair.everything, _provenance(pair)) for pair in results.pairs]
    curves, n_left_out = training_curves(pairs, quantity, split)
    caption = f"{quantity.name}, {quantity.rows_label(split)}, against the training step"
    if n_left_out:
        caption += f"; {n_left_out} pairs have no step of their own and are left out"
    return {"drawing": as_svg(plot_steps(curves, quantity, split), "steps"), "caption": caption}


def _provenance(pair: PairResults) -> Record:
    """Return what is known of the models of both sides; nothing from a CSV."""
    details = pair.details
    return {} if details is None else {"source": details.source, "target": details.target}


def _overview(results: Results, quantity: Quantity, split: str) -> dict[str, Any]:
    """Return what stands above the pairs: heat maps, the ranking, and warnings by pair."""
    known = {quantity.name for quantity in quantities_in(results.everything)}
    measured = (str(record["measure"]) for record in results.measures)
    drawn = [name for name in (*MAPPED, *measured) if name in known]
    pairs_by_warning: dict[str, list[int]] = defaultdict(list)
    for place, pair in enumerate(results.pairs):
        for text in dict.fromkeys(pair.warnings):
            pairs_by_warning[text].append(place)
    return {
        "heat_maps": [_heat_map(results, n) for n in dict.fromkeys([quantity.name, *drawn])],
        "ranking": _ranking(results, quantity, split),
        "warnings": sorted(pairs_by_warning.items(), key=lambda item: -len(item[1])),
    }


def _heat_map(results: Results, name: str) -> dict[str, Any]:
    """Return a heat map, and its cells: text, and whether it is the closest target."""
    matrix = make_matrix(results.everything, name)
    closest = {(row, column) for (row, _), column in matrix.closest().items()}
    rows = []
    for row, view in enumerate(matrix.rows):
        cells = []
        for place in ((row, column) for column in range(len(matrix.columns))):
            text = number(matrix.values[place]) if place in matrix.values else ""
            cells.append((text, place in closest))
        rows.append((view.name, cells))
    return {
        "name": name,
        "drawing": as_svg(plot_matrix(matrix, titled=False), f"map-{name.replace('+', '-')}"),
        "caption": matrix.caption,
        "columns": [view.name for view in matrix.columns],
        "rows": rows,
        "has_closest": bool(closest),
    }


def _ranking(results: Results, quantity: Quantity, split: str) -> dict[str, Any]:
    """Return all pairs as numbered cells, the closest first; columns without cells are left out."""
    ranked = []
    for place, pair in enumerate(results.pairs):
        records = (r for r in pair.everything if holds(r, quantity) and r["split"] == split)
        record = next(records, None)
        if record is not None:
            ranked.append((reading_across_targets(record, quantity), record.get("p_value"), place))
    sign = 1 if quantity.closer == "lower" else -1
    ranked.sort(key=lambda row: float("inf") if row[0].value is None else sign * row[0].value)
    columns = {
        "rank": [str(rank) for rank in range(1, len(ranked) + 1)],
        f"{quantity.heading_across_targets} {quantity.rows_label(split)}": [
            number(reading.value) for reading, *_ in ranked
        ],
        "95 %": ["" if r.low is None else interval(r.low, r.high) for r, *_ in ranked],
        "p": ["" if p_value is None else number(p_value) for _, p_value, _ in ranked],
        "warnings": [str(len(results.pairs[place].warnings) or "") for *_, place in ranked],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    rows = zip((place for *_, place in ranked), zip(*columns.values(), strict=True), strict=True)
    return {"columns": list(columns), "rows": list(rows)}


def _pair(pair: PairResults, place: int) -> dict[str, Any]:
    """Return what the page shows of one pair."""
    tables = [_error_table(pair.records)] if pair.records else []
    if pair.measures:
        tables.append(replace(measures_table(pair.measures), notes=()))
    drawn = _figures(pair) if place < MOST_DRAWN else ()
    figures = [
        (as_svg(figure, f"pair{place}-{number}"), caption)
        for number, (figure, caption) in enumerate(drawn)
    ]
    return {
        "title": pair.title,
        "size": _size(pair.everything),
        "tables": tables,
        "warnings": pair.warnings,
        "figures": figures,
    }


def _figures(pair: PairResults) -> Iterator[tuple["Figure", str]]:
    """Yield the figures of a pair with their captions."""
    records, details = pair.records, pair.details
    if records:
        yield plot_errors(records, titled=False), "Error of every map, with 95 % intervals"
    if len({record["split"] for record in records}) > 1:
        yield plot_splits(records), "What in-sample numbers flatter"
    if details is None:
        return
    if details.null_errors:
        yield plot_nulls(details.null_errors, records), "Against shuffled pairs"
    if details.matched_correlations:
        yield plot_correlations(details.matched_correlations), "Agreement of ICA components"
    if details.spectra:
        yield plot_spectra(details.spectra), "Spectrum of both spaces"
    if details.ica:
        kurtosis = {report.side: report.kurtosis for report in details.ica}
        yield plot_kurtosis(kurtosis), "What ICA can hold on to"


def _error_table(records: Sequence[Record]) -> Table:
    """Return the errors of one pair, whose heading stands above already."""
    return replace(error_table(records), notes=tuple(_starts(records)))


def _starts(records: Sequence[Record]) -> Iterator[str]:
    """Yield by split how many starts of ICA there were on both sides, and how they agree."""
    for record in records:
        starts = [record.get(f"{side}_starts") for side in ("source", "target")]
        if record["map"] != "ica" or None in starts:
            continue
        note = f"{record['split']}, starts of ICA: the best of {starts[0]} and {starts[1]}"
        agreement = [record.get(f"{side}_agreement") for side in ("source", "target")]
        if None not in agreement:
            note += f", which agree to {agreement[0]:.2f} and {agreement[1]:.2f}"
        yield note


def _size(records: Sequence[Record]) -> str:
    """Return how many rows there are in each split, and the widths."""
    rows = {record["split"]: record["n_rows"] for record in reversed(records)}
    counts = ", ".join(f"{rows[split]} rows {split}" for split in reversed(SPLITS) if split in rows)
    widths = [records[0].get(f"{side}_dim") for side in ("source", "target")]
    return f"{counts}; {widths[0]} → {widths[1]} columns" if None not in widths else counts


def _captions(results: Results) -> Iterator[str]:
    if results.records:
        yield from legend_lines(error_table(results.records))
    if results.measures:
        yield from measures_table(results.measures).notes
    yield from results.notes


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
