"""What became of every damaged file and every command line, counted."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["equal", "refused", "changed", "wrong", "traceback", "hang"]
OUTCOMES: tuple[Outcome, ...] = ("equal", "refused", "changed", "wrong", "traceback", "hang")
BAD = ("wrong", "traceback", "hang")
# By the clock on the wall, of a machine that may be busy: what waits for ever waits longer.
SECONDS = 120


class Hang(BaseException):
    """Raised by the clock in whatever takes too long."""


@contextmanager
def clock(seconds: int = SECONDS) -> Iterator[None]:
    """End the block with ``Hang`` after so many seconds."""

    def ring(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Counts:
    """Outcomes of one campaign, with what led to the bad ones."""

    name: str
    counted: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome, what: str = "") -> None:
        self.counted[outcome] += 1
        if outcome in BAD:
            self.bad.append(f"{outcome}: {what}")

    @property
    def tried(self) -> int:
        return sum(self.counted.values())

    def line(self) -> str:
        cells = [f"{self.tried:>8,}", *(f"{self.counted[each]:>9,}" for each in OUTCOMES)]
        return f"{self.name:<24}" + " ".join(cells)


HEADING = f"{'':<24}{'tried':>8} " + " ".join(f"{each:>9}" for each in OUTCOMES)


def outcome_of(
    act: Callable[[], Any], original: Any, expected: type[Exception], *, is_sealed: bool
) -> tuple[Outcome, str]:
    """Act on damage: it is refused in one line, or gives what the original gave.

    What carries no checksum may give something else too, which is then ``changed``.
    """
    try:
        with clock():
            found = act()
    except expected as refusal:
        text = str(refusal)
        return ("traceback", f"several lines: {text}") if "\n" in text else ("refused", text)
    except Hang:
        return "hang", ""
    except BaseException as failure:  # noqa: BLE001
        return "traceback", f"{type(failure).__name__}: {failure}"
    if found == original:
        return "equal", ""
    return ("wrong" if is_sealed else "changed"), ""
