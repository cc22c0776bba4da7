"""Two-class questions from label columns: each value against the control."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray
from repalign.exceptions import InputError


@dataclass(frozen=True, eq=False)
class LabelTask:
    """One question: which of these rows are positive (1) and which control (0)."""

    title: str
    rows: IntArray
    labels: IntArray


def label_tasks(
    columns: Mapping[str, NDArray[Any]], names: Sequence[str], control: str | None
) -> tuple[LabelTask, ...]:
    """Return the questions that label columns ask.

    A column of 0 and 1 (or false and true) is one question. Any other column is one question
    for each value but ``control``: the rows of that value against those of the control. A
    column with a single value is a question that cannot be answered, and is kept to say so.

    Raises:
        InputError: the control is not among the values, or a column needs one and none is given.
    """
    if not names:
        raise InputError("no label was given; expected the name of at least one column")
    tasks: list[LabelTask] = []
    for name in names:
        values = columns[name]
        texts = np.array([_text(value) for value in values.tolist()])
        distinct = np.unique(texts)
        if control is not None and control in distinct:
            tasks += _against(name, texts, distinct, control)
        elif set(distinct.tolist()) <= {"0", "1"}:
            tasks.append(LabelTask(name, np.arange(texts.size), (texts == "1").astype(np.int64)))
        elif distinct.size == 1:
            tasks.append(
                LabelTask(name, np.arange(texts.size), np.zeros(texts.size, dtype=np.int64))
            )
        else:
            shown = ", ".join(distinct[:8]) + (", …" if distinct.size > 8 else "")
            wanted = (
                "say which is the control (--control)"
                if control is None
                else (f"the control {control!r} is not among them")
            )
            raise InputError(f"label {name} has the values {shown}; {wanted}")
    return tuple(tasks)


def _against(
    name: str, texts: NDArray[Any], distinct: NDArray[Any], control: str
) -> list[LabelTask]:
    others = [value for value in distinct.tolist() if value != control]
    tasks = []
    for value in others:
        rows = np.flatnonzero((texts == value) | (texts == control))
        title = name if len(others) == 1 else f"{name}={value}"
        tasks.append(LabelTask(title, rows, (texts[rows] == value).astype(np.int64)))
    if not others:
        tasks.append(LabelTask(name, np.arange(texts.size), np.zeros(texts.size, dtype=np.int64)))
    return tasks


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return {"True": "1", "true": "1", "False": "0", "false": "0"}.get(str(value), str(value))
