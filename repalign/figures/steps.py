"""Alignment against the step of training, from the revisions that stores record."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repalign.exceptions import InputError
from repalign.figures.style import LINES, default_style, new_panel
from repalign.printable import for_figure
from repalign.tables.quantities import (
    Quantity,
    Reading,
    holds,
    reading_across_targets,
)
from repalign.tables.table import side_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
Details = Mapping[str, Any]
SIDES = ("source", "target")
# More lines than this are no longer told apart.
MOST_LINES = 14
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NUMBERED = re.compile(r"(?:[A-Za-z]+[-_]?)?(\d{1,15})")
# What trainers call the folders that they save.
_SAVED = re.compile(
    r"(?:checkpoint|ckpt|global_?step|step|iter|epoch)[-_]?(\d{1,15})", re.IGNORECASE
)


@dataclass(frozen=True)
class TrainingCurve:
    """One line: what changes with the step, and its values by step."""

    label: str
    points: Mapping[int, Reading]


def step_of(revision: Any) -> int | None:
    """Return the number of a revision such as ``step1000``; None of a branch or a commit."""
    if not isinstance(revision, str) or _COMMIT.fullmatch(revision):
        return None
    match = _NUMBERED.fullmatch(revision)
    return None if match is None else int(match[1])


def training_curves(
    pairs: Sequence[tuple[Sequence[Record], Details]], quantity: Quantity, split: str
) -> tuple[list[TrainingCurve], int]:
    """Return the lines of pairs by training step, and how many pairs have no place on them.

    Where both sides have a step, it is that of the side that changes while the other stays; where
    both change, that of both if they are equal.
    """
    models = [tuple(_model(details.get(side)) for side in SIDES) for _, details in pairs]
    steps = [tuple(_step(model) for model in both) for both in models]
    is_fixed = [len({both[side] for both in steps} - {None}) < 2 for side in (0, 1)]
    lines: dict[str, dict[int, Reading]] = {}
    n_left_out = 0
    for (records, _), both, pair_models in zip(pairs, steps, models, strict=True):
        moving = _moving_sides(both, is_fixed)
        chosen = [r for r in records if holds(r, quantity) and r["split"] == split]
        if not moving or not chosen:
            n_left_out += 1
            continue
        label = " → ".join(
            _label(chosen[0], side, pair_models[number] if number in moving else {})
            for number, side in enumerate(SIDES)
        )
        step = both[moving[0]]
        assert step is not None, "a moving side has a step"
        # pairs of one name at one step are lines of their own
        name, number = label, 1
        while step in lines.get(name, {}):
            number += 1
            name = f"{label} ({number})"
        lines.setdefault(name, {})[step] = reading_across_targets(chosen[0], quantity)
    curves = [TrainingCurve(name, dict(sorted(points.items()))) for name, points in lines.items()]
    return curves, n_left_out


@default_style()
def plot_steps(curves: Sequence[TrainingCurve], quantity: Quantity, split: str) -> "Figure":
    """Draw one line for each curve, with its intervals; beyond some the figure says how many more.

    Raises:
        InputError: No pair has a step.
    """
    if not curves:
        raise InputError(
            "--by revision: no store records a numbered revision; extract them from "
            "hf:org/name@step1000, or from folders called checkpoint-1000"
        )
    drawn = curves[:MOST_LINES]
    figure, axes = new_panel(8.5, 3.8 + 0.2 * len(drawn))
    for number, (curve, label) in enumerate(zip(drawn, _short(drawn), strict=True)):
        known = {step: point for step, point in curve.points.items() if point.value is not None}
        colour = LINES[number % len(LINES)]
        axes.plot(
            list(known),
            [point.value for point in known.values()],  # type: ignore[arg-type]
            color=colour,
            linestyle="dashed" if number >= len(LINES) else "solid",
            marker="o",
            markersize=4,
            label=for_figure(label),
        )
        for step, point in known.items():
            if point.low is not None and point.high is not None:
                axes.vlines(step, point.low, point.high, color=colour, linewidth=1)
    steps = [step for curve in curves for step in curve.points]
    if min(steps) >= 0 and max(steps) > 50 * max(min(steps), 1):
        # a line that begins at 0 keeps it, in front of the decades
        axes.set_xscale("symlog", linthresh=max(1, min(step for step in steps if step > 0)))
    if quantity.closer == "lower":
        axes.set_ylim(bottom=0)
    axes.set_xlabel("training step")
    axes.set_ylabel(for_figure(f"{quantity.heading_across_targets} {quantity.rows_label(split)}"))
    if len(curves) > MOST_LINES:
        axes.set_title(f"{len(curves) - MOST_LINES} of {len(curves)} lines are left out")
    # next to the axes long names would leave them no room
    figure.legend(loc="outside lower left", frameon=False, fontsize="small")
    return figure


def _short(curves: Sequence[TrainingCurve]) -> list[str]:
    """Return the labels without the folder that all files share, and without endings."""
    sides = [curve.label.split(" → ") for curve in curves]
    folders = {"".join(side.rpartition("/")[:2]) for both in sides for side in both}
    are_files = all(".h5" in side for both in sides for side in both)
    shared = folders.pop() if are_files and len(folders) == 1 else ""
    return [
        " → ".join(side.removeprefix(shared).replace(".h5::", "::") for side in both)
        for both in sides
    ]


def _moving_sides(both: Sequence[int | None], is_fixed: Sequence[bool]) -> list[int]:
    """Return the sides whose step a pair stands at; none where that is not one step."""
    known = [side for side in (0, 1) if both[side] is not None]
    if len(known) < 2:
        return known
    # next to one that stays at its step, that of the other counts, be they once the same
    if is_fixed[0] != is_fixed[1]:
        return [is_fixed.index(False)]
    return known if both[0] == both[1] else []


def _step(model: Mapping[str, Any]) -> int | None:
    """Return the step of a model, by its revision or by the name of the folder it was saved in."""
    if model.get("revision") is not None:
        return step_of(model["revision"])
    identity = model.get("id")
    match = _SAVED.fullmatch(identity) if isinstance(identity, str) else None
    return None if match is None else int(match[1])


def _model(provenance: Any) -> Mapping[str, Any]:
    """Return what a store records of its model; nothing of what is not a store."""
    for key in ("info", "spec", "model"):
        provenance = provenance.get(key) if isinstance(provenance, Mapping) else None
    return provenance if isinstance(provenance, Mapping) else {}


def _label(record: Record, side: str, model: Mapping[str, Any]) -> str:
    """Name a side: by its model where the step changes, else as everywhere."""
    identity, step = model.get("id"), _step(model)
    if not isinstance(identity, str) or not identity:
        return side_name(record, side)
    if model.get("revision") is None and step is not None:
        # folders of several runs are called alike; their stores are not, but for the step
        before, number, after = str(record[side]).rpartition(str(step))
        identity = f"{before}*{after}" if number else identity.replace(str(step), "*")
    view = record.get(f"{side}_view")
    return f"{identity}::{view}" if view else identity
