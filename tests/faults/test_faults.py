"""A quick sample of the harness; ``python -m tests.faults --full`` runs the whole."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.faults.__main__ import CAMPAIGNS
from tests.faults.counts import BAD, OUTCOMES, outcome_of
from tests.faults.lines import (
    BUG,
    EXIT_CODES,
    copied,
    leaf_commands,
    make_files,
    random_line,
    run_line,
)

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
COMMANDS = leaf_commands()
LINES_PER_COMMAND = int(os.environ.get("REPALIGN_TEST_LINES", "3"))


# Those whose damage is nearly always noticed: what never refuses was never damaged.
DAMAGED = {"stores", "maps", "results", "kept", "foreign", "checkpoints"}


@pytest.mark.parametrize(
    "names",
    [
        ["stores", "maps", "results", "kept", "texts"],
        ["foreign", "checkpoints", "kills", "stops", "lines"],
    ],
    ids=["own", "foreign"],
)
def test_a_sample_of_every_campaign_finds_nothing(names: list[str]) -> None:
    """In a process of its own, because it forks."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.faults", *names, "--seed", "7"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2000:]
    lines = ran.stdout.splitlines()[1:]
    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        numbers = [int(each.replace(",", "")) for each in line[24:].split()]
        tried, refused = numbers[0], numbers[1 + OUTCOMES.index("refused")]
        assert tried >= CAMPAIGNS[name][1]
        assert refused >= tried / 2 or name not in DAMAGED, line


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


def test_the_harness_tells_hangs_crashes_and_memory() -> None:
    """In a process of its own, because it forks."""
    script = """
import os, time
from pathlib import Path
from tests.faults import counts
from tests.faults.counts import Counts, tried_apart
from tests.faults.forks import Limits
counts.BUDGET = 2**26
counts.Limits = lambda times: Limits(seconds=1, times=times)
found = Counts("x")
fine = lambda: ("equal", "")
cases = [("a", fine), ("b", lambda: time.sleep(9)), ("c", fine), ("d", os.abort), ("e", fine)]
tried_apart(found, cases, Path("/"))
assert found.bad[0].startswith("hang: b"), found.bad
assert found.bad[1].startswith("traceback: d"), found.bad
assert (found.tried, found.counted["equal"], found.peak < 2**26) == (5, 3, True)
tried_apart(found, [("f", lambda: ("equal", str(len(b"x" * 2**27))))], Path("/"))
assert found.bad[2].startswith("memory"), found.bad
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_the_exit_codes_are_those_of_the_documentation() -> None:
    text = (ROOT / "docs" / "output.md").read_text()
    assert {
        int(code) for code in re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)
    } == EXIT_CODES | {BUG}


def test_the_commands_of_the_counts_are_those_of_the_harness() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    named = re.findall(r"`python -m tests\.faults (\w+) --only \d+ --seed \d+`", text)
    assert set(named) == set(CAMPAIGNS)
