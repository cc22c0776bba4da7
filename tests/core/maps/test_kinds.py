"""One list of map kinds: everything that speaks of maps follows from it."""

import re
from pathlib import Path

import pytest

from repalign.core.estimators import KINDS
from repalign.core.maps import ALL_MAPS, ICA_MAPS, MAP_KINDS, PAPER_MAPS, fit_map
from repalign.exceptions import InputError
from tests.core.paired_data import fixture_a, moments_of

DOCS = Path(__file__).parents[3] / "docs"


def test_names_headings_and_meanings_are_told_and_differ() -> None:
    assert len({kind.heading for kind in MAP_KINDS}) == len(MAP_KINDS)
    assert all(kind.heading.endswith((" ↓", " ↑")) and kind.means for kind in MAP_KINDS)


def test_the_selections_are_what_they_say() -> None:
    assert PAPER_MAPS == ("permutation", "rigid", "linear", "ica")
    assert ICA_MAPS == ("ica", "ica+scale", "ica-components")
    assert ALL_MAPS[:-1] == KINDS


@pytest.mark.parametrize("name", ICA_MAPS)
def test_an_ica_map_without_ica_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="ICA"):
        fit_map(name, moments_of(*fixture_a()))


def test_the_documents_list_every_kind_in_this_order() -> None:
    text = (DOCS / "maths.md").read_text(encoding="utf-8")
    table = text.split("## Maps")[1].split("\n\n")[2]
    assert tuple(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)) == ALL_MAPS
    columns = (DOCS / "results.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\| `map` \| (.*) \|$", columns, re.MULTILINE)
    assert tuple(re.findall(r"`([^`]+)`", line)) == ALL_MAPS
