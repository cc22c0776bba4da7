"""A quick sample of the harness; ``python -m tests.faults --full`` runs the whole."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.faults.__main__ import CAMPAIGNS
from tests.faults.counts import BAD, Counts, outcome_of
from tests.faults.lines import EXIT_CODES, copied, leaf_commands, make_files, random_line, run_line
from tests.faults.maps import damage_maps
from tests.faults.results import damage_results
from tests.faults.texts import inject_texts

ROOT = Path(__file__).parents[2]
COMMANDS = leaf_commands()
LINES_PER_COMMAND = int(os.environ.get("REPALIGN_TEST_LINES", "3"))


def check(counts: Counts, *, least_refused: float) -> None:
    assert counts.bad == []
    # damage that is never noticed would mean that nothing was damaged
    assert counts.counted["refused"] >= least_refused * counts.tried


def test_damaged_results_are_refused_in_one_line_or_read(tmp_path: Path) -> None:
    check(damage_results(tmp_path, 330, drawn_every=110), least_refused=0.5)


def test_damaged_maps_give_their_own_values_or_a_refusal(tmp_path: Path) -> None:
    check(damage_maps(tmp_path, 300), least_refused=0.5)


def test_no_text_acts_in_any_format() -> None:
    counts = inject_texts(40)
    assert counts.bad == []
    assert counts.tried == 40 * 11


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lines") / "files"
    folder.mkdir()
    make_files(folder)
    return folder


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=[words for words, _ in COMMANDS])
def test_every_line_ends_with_a_documented_exit_code(folder: Path, words: str, command) -> None:
    @settings(
        max_examples=LINES_PER_COMMAND,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink] if LINES_PER_COMMAND > 10 else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def any_line(data: st.DataObject) -> None:
        def choose(options: Any) -> Any:
            return data.draw(st.sampled_from(list(options)))

        line = random_line(words, command, choose)
        with copied(folder) as place:
            outcome, why = run_line(line, place)
        assert outcome not in BAD, f"{line}: {outcome} {why}"

    any_line()


def test_the_harness_tells_wrong_values_tracebacks_and_several_lines() -> None:
    def fail() -> None:
        raise KeyError("x")

    def refuse() -> None:
        raise ValueError("two\nlines")

    assert outcome_of(lambda: 2, 1, ValueError, is_sealed=True)[0] == "wrong"
    assert outcome_of(lambda: 2, 1, ValueError, is_sealed=False)[0] == "changed"
    assert outcome_of(lambda: 1, 1, ValueError, is_sealed=True)[0] == "equal"
    assert outcome_of(fail, 1, ValueError, is_sealed=True)[0] == "traceback"
    assert outcome_of(refuse, 1, ValueError, is_sealed=True)[0] == "traceback"
    assert outcome_of(lambda: int("x"), 1, ValueError, is_sealed=True)[0] == "refused"


def test_the_exit_codes_are_those_of_the_documentation() -> None:
    text = (ROOT / "docs" / "output.md").read_text()
    assert {
        int(code) for code in re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)
    } == EXIT_CODES


def test_the_commands_of_the_counts_are_those_of_the_harness() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    named = re.findall(r"`python -m tests\.faults (\w+) -n \d+ --seed \d+`", text)
    assert set(named) == set(CAMPAIGNS)
