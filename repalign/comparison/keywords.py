"""The options of a comparison as keywords: the names of the command line, in Python."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from repalign.comparison.settings import (
    PRESETS,
    CompareSettings,
    Denominator,
    MapRows,
    PermutationCost,
    WidthPolicy,
    settings_with,
)
from repalign.spoken import Names, Spoken


class RowLabels(TypedDict, total=False):
    """What is known of the rows beside what the inputs say."""

    ids: Sequence[str] | None
    groups: Iterable[Any] | None


class CompareKeywords(RowLabels, total=False):
    """The keywords of ``compare`` for editors and type checkers.

    What they do, allow and default to is declared in ``CompareSettings`` alone; a test compares
    the names and types.
    """

    paper: bool
    quick: bool
    audit: bool
    maps: Names
    measures: Names
    both: bool
    split: float
    folds: int
    null: int | None
    beyond_groups: bool
    rotations: int | None
    halves: int | None
    starts: int | None
    measure_rows: int | None
    ica_solver: Literal["picard", "sklearn"]
    ica_contrast: Literal["logcosh", "exp", "cube"]
    ica_whitening: Literal["pca", "none"]
    ica_passes: int | None
    denominator: Denominator
    permutation_cost: PermutationCost
    map_rows: MapRows
    widths: WidthPolicy
    on_mismatch: Literal["refuse", "intersect"]
    layers: Names
    within: bool
    max_pairs: int
    seed: int


_BESIDE = ("against", "names", "settings", "machine", "executor", *RowLabels.__annotations__)
COMPARE = Spoken(
    "compare",
    CompareSettings(),
    beside=_BESIDE,
    presets={each.name: each.settings for each in PRESETS},
    change=settings_with,
)


def settings_of(settings: CompareSettings | None, keywords: Mapping[str, Any]) -> CompareSettings:
    """Return the settings that a call means, given as such or by keywords.

    Raises:
        InputError: Both were given, a keyword is unknown, a value is not allowed, or there are
            several presets.

    Example:
        >>> settings_of(None, {"quick": True, "maps": ["rigid"], "seed": 3}).held_out
        0.0
    """
    given = {
        name: value for name, value in keywords.items() if name not in RowLabels.__annotations__
    }
    maps = given.get("maps")
    if isinstance(maps, str | list | tuple) and maps in ("none", ["none"], ("none",)):
        given["maps"] = ()
    return COMPARE.settings_of(settings, given)
