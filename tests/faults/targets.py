"""Files to damage: how each is read, what it holds, and how it is damaged."""

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repalign.exceptions import RepalignError
from tests.faults.counts import Case, Counts, Outcome, outcome_of, tried_apart
from tests.faults.damage import damaged_bytes
from tests.faults.forks import forked

BATCH = 40

Damage = Callable[[bytes, random.Random], bytes]


def any_damage(content: bytes, rng: random.Random) -> bytes:
    """Damage bytes anywhere; every other time near the beginning, where headers are."""
    if len(content) > 1024 and rng.random() < 0.5:
        return damaged_bytes(content[:512], rng) + content[512:]
    return damaged_bytes(content, rng)


@dataclass(frozen=True)
class Target:
    """One file that is damaged.

    Args:
        name: what it is called in reports.
        path: the file.
        read: reads what it belongs to and returns all that is in it.
        damage: makes other bytes of its bytes.
        expected: how it may be refused.
        is_sealed: whether any other content must be noticed.
        share: how often its turn comes.
    """

    name: str
    path: Path
    read: Callable[[], Any]
    damage: Damage = any_damage
    expected: type[Exception] = RepalignError
    is_sealed: bool = False
    share: int = 1


def apart(act: Callable[[], Any], folder: Path) -> Any:
    """Return what a function returns in a child."""
    ended = forked(act, folder)
    assert ended.status == 0, ended.said
    return ended.found[0]


def damage_all(
    counts: Counts, targets: Sequence[Target], folder: Path, count: int, seed: int
) -> Counts:
    """Damage the targets in turn, read each copy in a child, and count."""
    turns = [each for each in targets for _ in range(each.share)]
    wholes = {each.name: each.path.read_bytes() for each in targets}
    # read in children too: a library that begins threads here would hang in every child
    contents = {each.name: apart(each.read, folder) for each in targets}
    before = _names(folder)

    def case(number: int) -> Case:
        each = turns[number % len(turns)]
        made = each.damage(wholes[each.name], random.Random(f"{counts.name} {seed} {number}"))

        def act() -> tuple[Outcome, str]:
            each.path.write_bytes(made)
            try:
                original = contents[each.name]
                outcome = outcome_of(each.read, original, each.expected, is_sealed=each.is_sealed)
            finally:
                each.path.write_bytes(wholes[each.name])
            extra = _names(folder) ^ before
            return ("wrong", f"touched {sorted(extra)}") if extra else outcome

        return f"{each.name}, copy {number} of seed {seed}", act

    for first in range(0, count, BATCH):
        tried_apart(counts, [case(n) for n in range(first, min(count, first + BATCH))], folder)
        for each in targets:  # a child that was ended left its damage
            each.path.write_bytes(wholes[each.name])
        for extra in _names(folder) - before:
            _remove(folder / extra)
    return counts


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
