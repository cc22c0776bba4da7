"""Alignment against the step of training, from the revisions that stores record."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repalign.exceptions import InputError
from repalign.printable import for_figure
from repalign.workflows.figures.drawing import in_default_style, new_figure, plain_axes
from repalign.workflows.tables.layout import side_name
from repalign.workflows.tables.quantities import (
    Quantity,
    Reading,
    holds,
    reading_across_targets,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
Details = Mapping[str, Any]
SIDES = ("source", "target")
COLOURS = ("#4477aa", "#ee7733", "#228833", "#aa3377", "#66ccee", "#ccbb44", "#888888")
# More lines than this are no longer told apart.
MOST_LINES = 14
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NUMBERED = re.compile(r"(?:[A-Za-z]+[-_]?)?(\d{1,15})")
# What trainers call the folders that they save.
_SAVED = re.compile(
    r"(?:checkpoint|ckpt|global_?step|step|iter|epoch)[-_]?(\d{1,15})", re.IGNORECASE
)


@dataclass(frozen=True)
class Course:
    """One line: what changes with the step, and its values by step."""

    label: str
    points: Mapping[int, Reading]


def step_of(revision: Any) -> int | None:
    """Return the number of a revision such as ``step1000``; None of a branch or a commit."""
    if not isinstance(revision, str) or _COMMIT.fullmatch(revision):
        return None
    found = _NUMBERED.fullmatch(revision)
    return None if found is None else int(found[1])


def _step(model: Mapping[str, Any]) -> int | None:
    """Return the step of a model, by its revision or by the name of the folder it was saved in."""
    if model.get("revision") is not None:
        return step_of(model["revision"])
    identity = model.get("id")
    found = _SAVED.fullmatch(identity) if isinstance(identity, str) else None
    return None if found is None else int(found[1])


def courses_of(
    pairs: Sequence[tuple[Sequence[Record], Details]], quantity: Quantity, split: str
) -> tuple[list[Course], int]:
    """Return the lines of pairs by training step, and how many pairs have no place on them.

    Where both sides have a step, it is that of the side that changes while the other stays; where
    both change, that of both if they are equal.
    """
    models = [tuple(_model(details, side) for side in SIDES) for _, details in pairs]
    steps = [(_step(a), _step(b)) for a, b in models]
    n_changing = [len({both[side] for both in steps} - {None}) for side in (0, 1)]
    lines: dict[str, dict[int, Reading]] = {}
    left_out = 0
    for (records, _), both, of in zip(pairs, steps, models, strict=True):
        moving = _moving_sides(both, n_changing)
        chosen = [one for one in records if holds(one, quantity) and one["split"] == split]
        if not moving or not chosen:
            left_out += 1
            continue
        label = " → ".join(
            _label(chosen[0], side, of[number] if number in moving else {})
            for number, side in enumerate(SIDES)
        )
        step = both[moving[0]]
        assert step is not None, "a moving side has a step"
        line = lines.setdefault(_free(label, step, lines), {})
        line[step] = reading_across_targets(chosen[0], quantity)
    return [
        Course(label, dict(sorted(points.items()))) for label, points in lines.items()
    ], left_out


@in_default_style
def plot_steps(courses: Sequence[Course], quantity: Quantity, split: str) -> "Figure":
    """Draw one line for each course, with its intervals; beyond some the figure says how many more.

    Raises:
        InputError: No pair has a step.
    """
    if not courses:
        raise InputError(
            "--by revision: no store records a numbered revision; extract them from "
            "hf:org/name@step1000, or from folders called checkpoint-1000"
        )
    drawn = courses[:MOST_LINES]
    figure = new_figure(8.5, 3.8 + 0.2 * len(drawn))
    axes = plain_axes(figure)
    for number, (course, label) in enumerate(zip(drawn, _short(drawn), strict=True)):
        known = {step: each for step, each in course.points.items() if each.value is not None}
        colour, is_second = COLOURS[number % len(COLOURS)], number >= len(COLOURS)
        style = "dashed" if is_second else "solid"
        values = [each.value for each in known.values()]
        axes.plot(
            list(known),
            values,  # type: ignore[arg-type]
            color=colour,
            linestyle=style,
            marker="o",
            markersize=4,
            label=for_figure(label),
        )
        for step, each in known.items():
            if each.low is not None and each.high is not None:
                axes.vlines(step, each.low, each.high, color=colour, linewidth=1)
    steps = [step for course in courses for step in course.points]
    if min(steps) >= 0 and max(steps) > 50 * max(min(steps), 1):
        # a line that begins at 0 keeps it, in front of the decades
        axes.set_xscale("symlog", linthresh=max(1, min(step for step in steps if step > 0)))
    if quantity.closer == "lower":
        axes.set_ylim(bottom=0)
    axes.set_xlabel("training step")
    label = f"{quantity.heading_across_targets} {quantity.rows_label(split)}"
    axes.set_ylabel(for_figure(label))
    if len(courses) > MOST_LINES:
        axes.set_title(f"{len(courses) - MOST_LINES} of {len(courses)} lines are left out")
    # beside the axes long names would leave them no room
    figure.legend(loc="outside lower left", frameon=False, fontsize="small")
    return figure


def _short(courses: Sequence[Course]) -> list[str]:
    """Return the labels without the folder that all files share, and without endings."""
    sides = [course.label.split(" → ") for course in courses]
    folders = {"".join(side.rpartition("/")[:2]) for both in sides for side in both}
    are_files = all(".h5" in side for both in sides for side in both)
    shared = folders.pop() if are_files and len(folders) == 1 else ""
    return [
        " → ".join(side.removeprefix(shared).replace(".h5::", "::") for side in both)
        for both in sides
    ]


def _moving_sides(both: Sequence[int | None], n_changing: Sequence[int]) -> list[int]:
    """Return the sides whose step a pair stands at; none where that is not one step."""
    known = [side for side in (0, 1) if both[side] is not None]
    if len(known) < 2:
        return known
    # beside one that stays at its step, that of the other counts, be they once the same
    if n_changing[0] == 1 and n_changing[1] > 1:
        return [1]
    if n_changing[1] == 1 and n_changing[0] > 1:
        return [0]
    return known if both[0] == both[1] else []


def _model(details: Details, side: str) -> Mapping[str, Any]:
    """Return what a store records of its model; nothing of what is no store."""
    found: Any = details.get(side, {})
    for key in ("info", "spec", "model"):
        found = found.get(key, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def _free(label: str, step: int, lines: Mapping[str, Mapping[int, Reading]]) -> str:
    """Return the name of a line that has no value at this step yet."""
    name, number = label, 1
    while step in lines.get(name, {}):
        number += 1
        name = f"{label} ({number})"
    return name


def _label(record: Record, side: str, model: Mapping[str, Any]) -> str:
    """Name a side: by its model where the step changes, else as everywhere."""
    identity, step = model.get("id"), _step(model)
    if not isinstance(identity, str) or not identity:
        return side_name(record, side)
    if model.get("revision") is None and step is not None:
        # folders of several runs are called alike; their stores are not, but for the step
        before, found, after = str(record[side]).rpartition(str(step))
        identity = f"{before}*{after}" if found else identity.replace(str(step), "*")
    view = record.get(f"{side}_view")
    return f"{identity}::{view}" if view else identity
