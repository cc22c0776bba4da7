"""What the report begins with: matrices, a ranking of pairs, their warnings, and a search."""

import base64
import hashlib
from collections.abc import Iterator, Sequence

from repalign.printable import for_html
from repalign.workflows.figures.drawing import svg_of
from repalign.workflows.figures.matrix import plot_matrix
from repalign.workflows.figures.steps import courses_of, plot_steps
from repalign.workflows.report.input import PairResults, Results
from repalign.workflows.report.matrix import matrix_table
from repalign.workflows.tables.grid import interval, number
from repalign.workflows.tables.matrix import chosen_quantity, make_matrix
from repalign.workflows.tables.quantities import (
    SPLITS,
    Quantity,
    Reading,
    holds,
    quantities_in,
    reading_across_targets,
)

# Fewer pairs than this are seen at a glance without a map.
FEWEST_PAIRS = 3
# The maps that are drawn, as far as they were fitted; measures, which were asked for, all are.
MAPPED = ("rigid", "linear", "ica", "permutation")
# So many pairs are named below a warning; the others are counted.
MOST_NAMED = 6

SCRIPT = """
const box = document.getElementById("search");
const told = document.getElementById("found");
const parts = [...document.querySelectorAll("[data-name]")];
box.closest("p").hidden = false;
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let found = 0;
  for (const part of parts) {
    const fits = words.every((word) => part.dataset.name.includes(word));
    part.hidden = !fits;
    if (fits && part.matches("details")) found += 1;
  }
  told.textContent = words.length ? `${found} pairs` : "";
});
const open = () => {
  const part = location.hash && document.getElementById(location.hash.slice(1));
  if (part && part.matches("details")) { part.open = true; part.scrollIntoView(); }
};
addEventListener("hashchange", open);
open();
"""
"""The only script of the page: hides what does not match, opens the pair that a link leads to."""


def script_digest() -> str:
    """Return the digest by which a browser knows the script, and runs no other."""
    return base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()


def overview(results: Results, *, show: str | None = None, by_revision: bool = False) -> str:
    """Return the part of the page before the pairs.

    Raises:
        InputError: What is to be shown was not measured, or no pair has a training step.
    """
    quantity = chosen_quantity(quantities_in(results.everything), show)
    parts = [_courses(results, quantity)] if by_revision else []
    if len(results.pairs) >= FEWEST_PAIRS:
        parts += [_maps(results, quantity), _ranking(results, quantity)]
        parts.append(_warnings(results))
    return "\n".join(part for part in parts if part)


def name_of(pair: PairResults) -> str:
    """Return the attribute by which the search finds a pair."""
    return f'data-name="{for_html(pair.title.lower())}"'


def figure_of(svg: str, caption: str, *, is_wide: bool = False) -> str:
    """Return a figure; a wide one is scrolled where the screen is narrow."""
    if not is_wide:
        return f"<figure>{svg}<figcaption>{for_html(caption)}</figcaption></figure>"
    return (
        f"<figure class=wide><div class=scroll>{svg}</div>"
        f"<figcaption>{for_html(caption)}</figcaption></figure>"
    )


def _courses(results: Results, quantity: Quantity) -> str:
    split = _split(results, quantity)
    pairs = [(pair.everything, pair.details or {}) for pair in results.pairs]
    courses, left_out = courses_of(pairs, quantity, split)
    drawn = svg_of(plot_steps(courses, quantity, split), "steps")
    caption = f"{quantity.name}, {quantity.rows_label(split)}, against the training step"
    if left_out:
        caption += f"; {left_out} pairs have no step of their own and are left out"
    return f"<h2>By training step</h2>{figure_of(drawn, caption, is_wide=True)}"


def _maps(results: Results, quantity: Quantity) -> str:
    """Return a heat map of what is shown, and those of other maps and measures behind a fold."""
    names = {each.name for each in quantities_in(results.everything)}
    drawn = [*MAPPED, *(str(each["measure"]) for each in results.measures)]
    others = [name for name in dict.fromkeys(drawn) if name in names and name != quantity.name]
    first = _map(results, quantity.name)
    rest = "".join(_map(results, name) for name in others)
    fold = f"<details><summary>{', '.join(others)}</summary>{rest}</details>" if others else ""
    return f"<h2>All pairs</h2>{first}{fold}"


def _map(results: Results, name: str) -> str:
    matrix = make_matrix(results.everything, name)
    drawn = svg_of(plot_matrix(matrix, titled=False), f"map-{name.replace('+', '-')}")
    return figure_of(drawn, f"{matrix.what}", is_wide=True) + matrix_table(matrix)


def _ranking(results: Results, quantity: Quantity) -> str:
    """Return a table of all pairs, the closest first, with links to them."""
    split = _split(results, quantity)
    found = []
    for place, pair in enumerate(results.pairs):
        chosen = [one for one in pair.everything if holds(one, quantity) and one["split"] == split]
        if chosen:
            across = reading_across_targets(chosen[0], quantity)
            found.append((across, chosen[0].get("p_value"), place, pair))
    found.sort(key=lambda each: _rank(each[0], quantity))
    heading = f"{quantity.heading_across_targets} {quantity.rows_label(split)}"
    columns = {
        "rank": [str(rank) for rank in range(1, len(found) + 1)],
        heading: [number(got.value) for got, *_ in found],
        "95 %": ["" if got.low is None else interval(got.low, got.high) for got, *_ in found],
        "p": ["" if p_value is None else number(p_value) for _, p_value, *_ in found],
        "warnings": [str(n_warnings_of(pair) or "") for *_, pair in found],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    lines = [
        f'<tr {name_of(pair)}><th scope=row><a href="#pair-{place}">{for_html(pair.title)}</a></th>'
        + "".join(f"<td>{for_html(cells[line])}</td>" for cells in columns.values())
        + "</tr>"
        for line, (*_, place, pair) in enumerate(found)
    ]
    head = "".join(f"<th scope=col>{for_html(text)}</th>" for text in columns)
    return (
        f'<h2>Ranking</h2><div class="scroll tall" tabindex=0 role=region '
        f'aria-label="Ranking of pairs"><table><thead><tr><th scope=col>pair</th>{head}</tr>'
        f"</thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def n_warnings_of(pair: PairResults) -> int:
    """Return how many warnings a pair has; none are known of a CSV."""
    return len((pair.details or {}).get("warnings", ()))


def _rank(got: Reading, quantity: Quantity) -> float:
    if got.value is None:
        return float("inf")
    return got.value if quantity.closer == "lower" else -got.value


def _warnings(results: Results) -> str:
    """Return every warning once, with the pairs that it is about."""
    pairs: dict[str, list[int]] = {}
    for place, pair in enumerate(results.pairs):
        for text in dict.fromkeys((pair.details or {}).get("warnings", ())):
            pairs.setdefault(text, []).append(place)
    if not pairs:
        return ""
    items = "".join(
        f"<li>{for_html(text)} <span class=detail>{', '.join(_links(places))}</span></li>"
        for text, places in sorted(pairs.items(), key=lambda each: -len(each[1]))
    )
    return (
        "<details class=warnings><summary><h2>Before you believe it</h2> "
        f"{len(pairs)} warnings, by pair</summary><ul>{items}</ul></details>"
    )


def _links(places: Sequence[int]) -> Iterator[str]:
    for place in places[:MOST_NAMED]:
        yield f'<a href="#pair-{place}">pair {place + 1}</a>'
    if len(places) > MOST_NAMED:
        yield f"and {len(places) - MOST_NAMED} more"


def _split(results: Results, quantity: Quantity) -> str:
    found = {record["split"] for record in results.everything if holds(record, quantity)}
    return next(split for split in SPLITS if split in found)
