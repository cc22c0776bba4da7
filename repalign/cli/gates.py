"""Gates on the command line: their options, and what becomes of a result that breaks one."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from repalign.cli.talk import Talk
from repalign.exceptions import GateError, InputError

if TYPE_CHECKING:
    from repalign.comparison.results import CompareResult
    from repalign.comparison.settings import CompareSettings
    from repalign.results.gates import Gates

T = TypeVar("T")
PANEL = "Gate: exit code 3 where something does not hold"

FailAboveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-above",
        metavar="NAME=NUMBER",
        help="Fail where this map or measure is above the number, in any pair: rigid=0.15. "
        "Judged held-out where there is that. May be repeated.",
        rich_help_panel=PANEL,
    ),
]
FailBelowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-below",
        metavar="NAME=NUMBER",
        help="The same where it is below: efficiency=0.2. May be repeated.",
        rich_help_panel=PANEL,
    ),
]
BaselineOption = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        help="An earlier result (.json, .csv): fail where a pair is worse than there.",
        exists=True,
        dir_okay=False,
        rich_help_panel=PANEL,
    ),
]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        min=0,
        help="With --baseline: by how much a value may be worse.",
        show_default="0",
        rich_help_panel=PANEL,
    ),
]


def read_gates(
    above: Sequence[str] | None,
    below: Sequence[str] | None,
    baseline: Path | None,
    tolerance: float | None,
    talk: Talk,
) -> "Gates":
    """Return the gates that stand on the line, and say what is to be known of a baseline.

    Raises:
        BadParameter: They cannot be read.
    """
    from repalign.results import gates

    if baseline is None and tolerance is not None:
        raise typer.BadParameter("--tolerance needs --baseline, an earlier result")
    bounds = _as_usage(
        lambda: (
            *gates.parse_bounds(above or (), "above"),
            *gates.parse_bounds(below or (), "below"),
        )
    )
    limits = gates.read_gates(bounds, baseline, tolerance or 0.0)
    for note in () if limits.baseline is None else limits.baseline.notes:
        talk.note(note)
    return limits


def check_gates(
    gates: "Gates", settings: "CompareSettings", pairs: Callable[[], Sequence[tuple[str, str]]]
) -> None:
    """Refuse, before anything is computed, gates that could not be judged.

    Raises:
        BadParameter: They name what is not measured, or pairs that are not compared.
    """
    from repalign.tables.quantities import quantities_of

    if gates:
        known = () if gates.baseline is None else pairs()
        _as_usage(lambda: gates.check(quantities_of(settings.maps, settings.measures), known))


def check_shown(show: str | None, settings: "CompareSettings") -> None:
    """Refuse to show what is not measured.

    Raises:
        BadParameter: It is not.
    """
    from repalign.tables.matrix import chosen_quantity
    from repalign.tables.quantities import quantities_of

    if show is not None:
        _as_usage(lambda: chosen_quantity(quantities_of(settings.maps, settings.measures), show))


def judge_gates(gates: "Gates", result: "CompareResult", talk: Talk) -> None:
    """Say which gates a result breaks, a line each.

    Raises:
        GateError: It breaks some.
    """
    if not gates:
        return
    verdict = gates.judge(result.to_records())
    for line in verdict.broken:
        talk.broken(line)
    if verdict.broken:
        raise GateError(f"{len(verdict.broken)} of {verdict.n_judged} gates do not hold")
    note = f"all {verdict.n_judged} gates hold" if verdict.n_judged > 1 else "the gate holds"
    talk.note(f"{note}, judged {verdict.split}")


def _as_usage(action: Callable[[], T]) -> T:
    """Return what a function returns; what it finds wrong is wrong on the command line."""
    try:
        return action()
    except InputError as failure:
        raise typer.BadParameter(str(failure)) from failure
