"""What became of every damaged file, every command line and every kill, counted."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tests.faults.forks import Ended, Limits, forked

Outcome = Literal["equal", "refused", "changed", "wrong", "traceback", "hang", "memory"]
OUTCOMES: tuple[Outcome, ...] = (
    "equal", "refused", "changed", "wrong", "traceback", "hang", "memory",
)  # fmt: skip
BAD = ("wrong", "traceback", "hang", "memory")
# What reading any small file may take beside what the program has: an eighth of it is usual.
BUDGET = 2**30
TRACEBACK = "Traceback (most recent call last)"


@dataclass
class Counts:
    """Outcomes of one campaign, with what led to the bad ones."""

    name: str
    counted: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    peak: int = 0

    def used(self, ended: Ended, what: str) -> None:
        """Count the memory of a child."""
        self.peak = max(self.peak, ended.peak)
        if ended.peak > BUDGET:
            self.counted["memory"] += 1
            self.bad.append(f"memory: {ended.peak >> 20} MiB at or after {what}")

    def add(self, outcome: Outcome, what: str = "") -> None:
        self.counted[outcome] += 1
        if outcome in BAD:
            self.bad.append(f"{outcome}: {what}")

    @property
    def tried(self) -> int:
        return sum(self.counted[each] for each in OUTCOMES if each != "memory")

    def line(self) -> str:
        cells = [f"{self.tried:>8,}", *(f"{self.counted[each]:>9,}" for each in OUTCOMES)]
        cells.append(f"{self.peak >> 20:>8,}")
        return f"{self.name:<24}" + " ".join(cells)


HEADING = (
    f"{'':<24}{'tried':>8} " + " ".join(f"{each:>9}" for each in OUTCOMES) + f" {'peak MiB':>8}"
)


Case = tuple[str, Callable[[], tuple[Outcome, str]]]


def tried_apart(counts: Counts, cases: Sequence[Case], folder: Path) -> None:
    """Run cases in a child and count them; a crash, a hang and too much memory are bad.

    What ends the child is the fault of the case that it was at; another goes on with the next.
    """
    left = list(cases)
    while left:
        acts = [act for _, act in left]
        ended = forked(partial(_all, acts), folder, limits=Limits(times=len(left)))
        for (what, _), (outcome, why) in zip(left, ended.found, strict=False):
            counts.add(outcome, f"{what}: {why}")
        counts.used(ended, left[0][0])
        left = left[len(ended.found) :]
        if left:
            counts.add(
                "hang" if ended.is_hung else "traceback",
                f"{left[0][0]}: status {ended.status}: {ended.said[-400:]}",
            )
            left = left[1:]


def _all(acts: Sequence[Callable[[], tuple[Outcome, str]]]) -> Iterator[tuple[Outcome, str]]:
    for act in acts:
        yield act()


def outcome_of(
    act: Callable[[], Any], original: Any, expected: type[Exception], *, is_sealed: bool
) -> tuple[Outcome, str]:
    """Act on damage: it is refused in one line, or gives what the original gave.

    What carries no checksum may give something else too, which is then ``changed``.
    """
    try:
        found = act()
    except expected as refusal:
        text = str(refusal)
        return ("traceback", f"several lines: {text}") if "\n" in text else ("refused", text)
    except BaseException as failure:  # noqa: BLE001
        return "traceback", f"{type(failure).__name__}: {failure}"
    if found == original:
        return "equal", ""
    return ("wrong" if is_sealed else "changed"), ""
