from dataclasses import replace

import numpy as np
import pytest

from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.experiments.table_one import SMALL, PairOutcome, TableOne
from repalign.experiments.table_one_pairs import PAIRS, StoredPair, paper_rows
from repalign.experiments.table_one_reading import (
    broken_order,
    held_out_gap,
    maps_beyond_chance,
    sentences,
)
from repalign.experiments.table_one_table import table_of
from repalign.tables.render import text_lines

CHEAP = CompareSettings(n_null=39, n_rotations=1, n_halves=0)


def outcome(role: str, *, noise: float, seed: int = 0) -> PairOutcome:
    """A pair of rotated non-Gaussian spaces, or of independent ones."""
    rng = np.random.default_rng(seed)
    hidden = rng.laplace(size=(400, 5)) * [1, 2, 3, 4, 5]
    other = rng.laplace(size=(400, 5)) * [1, 2, 3, 4, 5] if role == "unrelated" else hidden
    first, second = (np.linalg.qr(rng.standard_normal((5, 5)))[0] for _ in range(2))
    source, target = hidden @ first, other @ second + noise * rng.standard_normal((400, 5))
    pair = next(p for p in PAIRS if p.role == role)
    paper = None if pair.paper_row is None else paper_rows()[pair.paper_row]
    return PairOutcome(pair, compare(source, target, settings=CHEAP), paper)


def table_one(*outcomes: PairOutcome) -> TableOne:
    return TableOne(outcomes, SMALL, 1.0, 2.0)


@pytest.fixture(scope="module")
def related() -> PairOutcome:
    return outcome("related", noise=0.5)


@pytest.fixture(scope="module")
def unrelated() -> PairOutcome:
    return outcome("unrelated", noise=0.5)


@pytest.fixture(scope="module")
def same_input() -> PairOutcome:
    return outcome("same input", noise=3.0)


@pytest.mark.parametrize("row", paper_rows().values(), ids=paper_rows())
def test_the_papers_efficiencies_follow_from_its_errors(row) -> None:
    made = (row["permutation"] - row["ica"]) / (row["permutation"] - row["rigid"])
    # the paper prints three decimals of the errors and two of the per cents
    assert made == pytest.approx(row["efficiency"], abs=1e-4)


def test_every_related_pair_stands_for_a_row_of_the_paper() -> None:
    assert {p.paper_row for p in PAIRS if p.role == "related"} == set(paper_rows())
    assert all(p.paper_row is None for p in PAIRS if p.role != "related")


def test_a_related_pair_keeps_the_order_and_beats_its_null(related) -> None:
    assert broken_order(related) == ()
    assert maps_beyond_chance(related) == ("linear", "rigid", "ica", "permutation")
    assert held_out_gap(related) == pytest.approx(
        related.record("linear", "held-out")["error"]
        / related.record("linear", "in-sample")["error"]
        - 1
    )


def test_a_pair_against_the_order_is_named_in_the_text(related, unrelated) -> None:
    swapped = tuple(
        replace(r, map={"rigid": "permutation", "permutation": "rigid"}.get(r.map, r.map))
        for r in related.result.records
    )
    wrong = replace(related, result=replace(related.result, records=swapped))
    assert [text.split(" ")[0] for text in broken_order(wrong)] == ["rigid", "ica"]
    text = " ".join(sentences(table_one(wrong, unrelated)))
    assert "0 of 1" in text
    assert f"{wrong.pair.title}: rigid " in text


def test_an_unrelated_pair_is_at_its_null_and_a_related_one_in_its_place_is_told(
    related, unrelated
) -> None:
    assert maps_beyond_chance(unrelated) == ()
    assert "no map" in sentences(table_one(related, unrelated))[-1]
    impostor = replace(related, pair=unrelated.pair)
    assert "linear, rigid, ica, permutation" in sentences(table_one(related, impostor))[-1]


def test_pairs_that_do_not_beat_chance_are_not_said_to_agree(related, unrelated) -> None:
    poor = replace(unrelated, pair=related.pair)
    assert sentences(table_one(related))[0].startswith("Every pair")
    assert sentences(table_one(poor))[0].startswith("Not every pair")


def test_the_table_has_the_papers_row_under_ours(related, same_input, unrelated) -> None:
    table = table_of(table_one(related, same_input, unrelated))
    headings = [place for place, line in enumerate(table.lines) if line.is_heading]
    assert [table.lines[place].label for place in headings] == [
        f"{related.pair.title} (paper: Pythia-160M 0/1); 400 × 5",
        f"{same_input.pair.title}; 400 × 5",
        f"{unrelated.pair.title}; 400 × 5",
    ]
    paper = table.lines[headings[1] - 1]
    assert paper.label == "paper"
    assert [cell for cell in paper.cells if cell] == [".219", ".150", ".131", ".202", "25"]
    assert not any(line.label == "paper" for line in table.lines[headings[1] :])
    assert max(len(text) for text, _ in text_lines(table, 80)) <= 100


def test_the_csv_has_the_columns_of_compare_and_the_papers_values_behind(related) -> None:
    rows = table_one(related).to_records()
    first = related.result.to_records()[0]
    assert list(rows[0])[: len(first)] == list(first)
    by_key = {(row["map"], row["split"]): row for row in rows}
    assert by_key["rigid", "in-sample"]["paper_error"] == 0.150
    assert by_key["rigid", "held-out"]["paper_error"] is None
    assert by_key["mean", "in-sample"]["paper_error"] is None
    assert by_key["ica", "in-sample"]["paper_efficiency"] == 0.2464
    assert by_key["rigid", "in-sample"]["paper_efficiency"] is None


def test_a_pair_without_paper_has_no_values_behind() -> None:
    pair = StoredPair("x", "a", "b", "unrelated")
    x = np.random.default_rng(0).laplace(size=(100, 2))
    found = PairOutcome(pair, compare(x, x[::-1].copy(), settings=CHEAP), None)
    assert {row["paper_error"] for row in table_one(found).to_records()} == {None}
