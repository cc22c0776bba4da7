"""The nulls, one list: what each breaks, who asks for it how often, and where its answer stands.

Settings, help, columns, lines of tables, documents and tests follow from this list. It is light,
so that the command line can read it. How each is drawn stands next to what it is the null of, the
shuffles of pairs in ``repalign.comparison.draws``.
"""

from dataclasses import dataclass
from typing import Any, Literal

from repalign.options import option

Study = Literal["compare", "disentangle", "deconfound"]
NullOf = Literal["error", "efficiency", "score", "AUROC"]


@dataclass(frozen=True)
class NullKind:
    """One thing that chance is asked.

    Attributes:
        name: What it is called here and in ``docs/maths.md``.
        study: The command that draws it.
        of: The number whose null it is.
        told: What is computed in its place, for captions and headings.
        setting: Field of the study's settings that asks for it.
        default: How many rounds by default; None takes what a budget allows, a truth asks for
            as many as the study's first null has.
        help: Of its option.
        flag: Its option, where that is not the field's name.
        absent: What None stands for.
        value: Column of what chance gives; empty where only a p-value is told.
        spread: Column of the deviation of that over rounds.
        p_value: Column of the p-value; empty where the rounds are too few for one.
        columns: Its other columns: rounds, rows, what was observed on them.
        line: Label of the line of a table that shows ``value``; empty where it has none.
        p_line: Label of the line that shows ``p_value``.
    """

    name: str
    study: Study
    of: NullOf
    told: str
    setting: str
    default: int | bool | None
    help: str
    flag: str | None = None
    absent: str | None = None
    value: str = ""
    spread: str = ""
    p_value: str = ""
    columns: tuple[str, ...] = ()
    line: str = ""
    p_line: str = ""

    @property
    def is_shuffle_of_pairs(self) -> bool:
        """Whether it puts the target's rows in another order and fits all maps again."""
        return self.study == "compare" and self.of == "error"

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Every column that holds something of it."""
        named = (self.value, self.spread, self.p_value, *self.columns)
        return tuple(name for name in named if name)


NULLS = (
    NullKind(
        "shuffled pairing",
        study="compare",
        of="error",
        told="the same fits on shuffled pairs",
        setting="n_null",
        default=None,
        help="Shuffles of the pairing.",
        flag="null",
        absent="99; 9 to 99 of wide spaces",
        value="null",
        p_value="p_value",
        columns=("n_null", "null_rows", "null_observed", "smallest_p", "p_search", "n_searched"),
        line="null",
        p_line="p",
    ),
    NullKind(
        "beyond groups",
        study="compare",
        of="error",
        told="the same fits, rows shuffled inside their groups",
        setting="beyond_groups",
        default=False,
        help="Also shuffle rows inside their groups: is anything shared beyond the group?",
        p_value="p_beyond_groups",
        p_line="p beyond",
    ),
    NullKind(
        "random rotations",
        study="compare",
        of="efficiency",
        told="components of the source rotated at random",
        setting="n_rotations",
        default=None,
        help="Random rotations for the null of the held-out ICA efficiency.",
        flag="rotations",
        absent="99; 19 to 99 of wide spaces",
        value="efficiency_null",
        spread="efficiency_null_sd",
        p_value="efficiency_p",
        columns=("n_rotations",),
        line="null",
        p_line="p",
    ),
    NullKind(
        "shuffled factors",
        study="disentangle",
        of="score",
        told="factors shuffled",
        setting="n_null",
        default=10,
        help="Rounds with shuffled factors.",
        flag="null",
        value="null",
        p_value="p_value",
        columns=("n_null", "null_scheme", "null_rows", "smallest_p"),
        line="factors shuffled",
        p_line="p",
    ),
    NullKind(
        "permuted labels",
        study="deconfound",
        of="AUROC",
        told="labels permuted within batches",
        setting="n_permuted",
        default=1,
        help="Rounds with labels permuted within batches.",
        flag="permuted",
        value="null",
    ),
)
"""Every null, in the order of their lines in tables."""

NULL_OF = {kind.name: kind for kind in NULLS}
PAIR_SHUFFLES = tuple(kind for kind in NULLS if kind.is_shuffle_of_pairs)


def nulls_of(study: Study) -> tuple[NullKind, ...]:
    """Return the nulls of one command."""
    return tuple(kind for kind in NULLS if kind.study == study)


def null_option(name: str, panel: str) -> Any:
    """Return the field of a settings class that asks for a null."""
    kind = NULL_OF[name]
    told: dict[str, Any] = {"flag": kind.flag, "absent": kind.absent, "panel": panel}
    if not isinstance(kind.default, bool):
        told["least"] = 0
    return option(kind.default, kind.help, **told)
