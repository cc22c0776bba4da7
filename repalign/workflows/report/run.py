"""A result as one HTML page that needs nothing else: tables, figures, warnings, provenance."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from repalign.printable import for_html
from repalign.workflows.figures.drawing import svg_of
from repalign.workflows.figures.errors import plot_errors
from repalign.workflows.figures.pair import (
    plot_correlations,
    plot_kurtosis,
    plot_nulls,
    plot_spectra,
    plot_splits,
)
from repalign.workflows.report.input import PairResults, Results, read_results
from repalign.workflows.report.overview import (
    SCRIPT,
    figure_of,
    name_of,
    overview,
    script_digest,
)
from repalign.workflows.report.page import PAGE
from repalign.workflows.report.records import SPLITS, Record
from repalign.workflows.tables.errors import error_table
from repalign.workflows.tables.grid import Grid
from repalign.workflows.tables.measures import measures_grid

OnProgress = Callable[[int, int], None]

# Beyond this many pairs the sections are closed, so that the page opens quickly.
_OPEN_PAIRS = 8
# Figures of more pairs would take minutes to draw, and a page of hundreds of megabytes.
MOST_DRAWN = 24


def make_report(
    path: Path,
    on_progress: OnProgress | None = None,
    *,
    show: str | None = None,
    by_revision: bool = False,
    on_note: Callable[[str], None] | None = None,
) -> str:
    """Return the page for a file of results.

    Args:
        path: The .json or .csv.
        on_progress: Told of pairs that are done, and of all.
        show: Map or measure by which pairs are ranked; the rigid map where there is one.
        by_revision: Whether to draw it against the training step too.
        on_note: Told what is to be known of the file.

    Raises:
        InputError: The file cannot be read or holds something else.
    """
    results = read_results(path)
    if on_note is not None:
        for note in results.notes:
            on_note(note)
    summary = overview(results, show=show, by_revision=by_revision)
    sections = []
    for number, pair in enumerate(results.pairs):
        sections.append(_pair(pair, number, n_pairs=len(results.pairs)))
        if on_progress is not None:
            on_progress(number + 1, len(results.pairs))
    return PAGE.format(
        name=for_html(results.name),
        count=len(results.pairs),
        noun="pair" if len(results.pairs) == 1 else "pairs",
        overview=summary,
        left_out=_left_out(len(results.pairs)),
        pairs="\n".join(sections),
        caption="<br>".join(for_html(line) for line in _captions(results)),
        settings=_settings(results),
        script=SCRIPT,
        digest=script_digest(),
    )


def _left_out(n_pairs: int) -> str:
    if n_pairs <= MOST_DRAWN:
        return ""
    return (
        f"<p class=size>Figures of the first {MOST_DRAWN} pairs; the other {n_pairs - MOST_DRAWN} "
        "have their tables alone.</p>"
    )


def _pair(pair: PairResults, number: int, *, n_pairs: int) -> str:
    drawn = _drawings(pair, f"pair{number}") if number < MOST_DRAWN else []
    figures = "".join(figure_of(svg, caption) for svg, caption in drawn)
    tables = _error_table(pair.records) if pair.records else ""
    if pair.measures:
        tables += _grid(measures_grid(pair.measures))
    size = _size(pair.everything)
    opened = " open" if n_pairs <= _OPEN_PAIRS else ""
    return (
        f'<details class=pair id="pair-{number}" {name_of(pair)}{opened}>'
        f"<summary><h2>{number + 1}. {for_html(pair.title)}</h2></summary>"
        f"<p class=size>{for_html(size)}</p>{tables}"
        f"{_warnings((pair.details or {}).get('warnings', ()))}"
        f"<div class=figures>{figures}</div></details>"
    )


def _size(records: Sequence[Record]) -> str:
    """Say how many rows there are in each split, and the widths."""
    rows = {record["split"]: record["n_rows"] for record in reversed(records)}
    counts = ", ".join(f"{rows[split]} rows {split}" for split in SPLITS if split in rows)
    widths = [records[0].get(f"{side}_dim") for side in ("source", "target")]
    return f"{counts}; {widths[0]} → {widths[1]} columns" if None not in widths else counts


def _captions(results: Results) -> list[str]:
    lines = list(error_table(results.records).caption) if results.records else []
    lines += measures_grid(results.measures).notes if results.measures else ()
    return [*lines, *results.notes]


def _drawings(pair: PairResults, name: str) -> list[tuple[str, str]]:
    records = pair.records
    drawn = []
    if records:
        drawn.append(
            (plot_errors(records, titled=False), "Error of every map, with 95 % intervals")
        )
    if len({record["split"] for record in records}) > 1:
        drawn.append((plot_splits(records), "What in-sample numbers flatter"))
    details = pair.details or {}
    if details.get("null_errors"):
        drawn.append((plot_nulls(details["null_errors"], records), "Against shuffled pairs"))
    if details.get("matched_correlations"):
        drawn.append(
            (plot_correlations(details["matched_correlations"]), "Agreement of ICA components")
        )
    if details.get("spectra"):
        drawn.append((plot_spectra(details["spectra"]), "Spectrum of both spaces"))
    if details.get("ica"):
        drawn.append((plot_kurtosis(details["ica"]), "What ICA can hold on to"))
    return [(svg_of(figure, f"{name}-{i}"), text) for i, (figure, text) in enumerate(drawn)]


def _error_table(records: Sequence[Record]) -> str:
    table = error_table(records)
    lines = [
        (line.label, line.cells, line.is_error) for block in table.blocks for line in block.lines
    ]
    told = tuple(_starts(records))
    notes = "".join(f"<p class=size>{for_html(note)}</p>" for note in told)
    return _table([column.heading for column in table.columns], lines) + notes


def _starts(records: Sequence[Record]) -> Iterator[str]:
    """Say by split how many starts of ICA there were on both sides, and how they agree."""
    for record in records:
        made = record.get("source_starts"), record.get("target_starts")
        if record["map"] != "ica" or None in made:
            continue
        agreed = record.get("source_agreement"), record.get("target_agreement")
        told = "" if None in agreed else f", which agree to {agreed[0]:.2f} and {agreed[1]:.2f}"
        yield f"{record['split']}, starts of ICA: the best of {made[0]} and {made[1]}{told}"


def _grid(grid: Grid) -> str:
    """Return the table of one pair; the heading that names the pair stands above it already."""
    lines = [(row.label, row.cells, not row.is_detail) for row in grid.rows if not row.is_heading]
    return _table(grid.columns, lines)


def _table(headings: Sequence[str], lines: Sequence[tuple[str, Sequence[str], bool]]) -> str:
    heads = "".join(f"<th scope=col>{for_html(heading)}</th>" for heading in headings)
    rows = []
    for label, cells, is_value in lines:
        row = "".join(f"<td>{for_html(cell)}</td>" for cell in cells)
        kind = "error" if is_value else "detail"
        rows.append(f"<tr class={kind}><th scope=row>{for_html(label.strip())}</th>{row}</tr>")
    return (
        "<div class=scroll tabindex=0 role=region aria-label=Values><table>"
        f"<thead><tr><th scope=col>&nbsp;</th>{heads}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _warnings(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    items = "".join(f"<li>{for_html(text)}</li>" for text in texts)
    return f"<section class=warnings><h3>Before you believe it</h3><ul>{items}</ul></section>"


def _settings(results: Results) -> str:
    pairs = [*results.settings.items(), *results.versions.items()]
    if not pairs:
        return "<p>Made from a CSV. The JSON of the same result also holds nulls and spectra.</p>"
    rows = "".join(
        f"<tr><th scope=row>{for_html(str(key))}</th><td>{for_html(_plain(value))}</td></tr>"
        for key, value in pairs
    )
    return f"<div class=scroll><table class=settings><tbody>{rows}</tbody></table></div>"


def _plain(value: object) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)
