"""The options of a comparison as keywords: the names of the command line, in Python."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, get_origin

from repalign.exceptions import InputError
from repalign.options import DeclaredOption, check_value, options_of, plain_type
from repalign.workflows.compare.settings import (
    PRESETS,
    CompareSettings,
    DiameterRows,
    IcaRows,
    PermutationCost,
    WidthPolicy,
    settings_with,
)

Names = Sequence[str] | str


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
    gaussian_null: int | None
    refits: int | None
    starts: int | None
    measure_rows: int | None
    ica_solver: Literal["picard", "sklearn"]
    ica_contrast: Literal["logcosh", "exp", "cube"]
    ica_whitening: Literal["pca", "none"]
    ica_passes: int | None
    ica_rows: IcaRows
    permutation_cost: PermutationCost
    widths: WidthPolicy
    diameter_rows: DiameterRows
    on_mismatch: Literal["refuse", "intersect"]
    layers: Names
    within: bool
    max_pairs: int
    seed: int


OPTIONS = {each.flag.replace("-", "_"): each for each in options_of(CompareSettings) if each.flag}
"""Every option of the command line by its keyword."""

_PRESETS = {each.name: each.settings for each in PRESETS}
_BESIDE = ("against", "names", "settings", "machine", "executor", *RowLabels.__annotations__)
_CALLED = {each.name: keyword for keyword, each in OPTIONS.items()}


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
    for name in given:
        if name not in OPTIONS and name not in _PRESETS:
            raise InputError(f"{name}: is no keyword of compare; {_near(name)}")
    if settings is not None:
        if given:
            raise InputError(
                f"settings: got them together with {', '.join(given)}; expected either settings "
                "or keywords"
            )
        return settings
    base = _preset_of(given)
    values = {name: _value(name, value) for name, value in given.items() if name in OPTIONS}
    return settings_with(base, {OPTIONS[name].path: value for name, value in values.items()})


def _preset_of(given: Mapping[str, Any]) -> CompareSettings:
    """Return the settings of the preset that is asked for, else the defaults."""
    for name in _PRESETS.keys() & given.keys():
        if not isinstance(given[name], bool):
            raise InputError(f"{name}: got {given[name]!r}, expected True or False")
    chosen = [name for name in _PRESETS if given.get(name)]
    if len(chosen) > 1:
        raise InputError(f"{' and '.join(chosen)} exclude each other; choose one")
    return _PRESETS[chosen[0]] if chosen else CompareSettings()


def _value(name: str, value: Any) -> Any:
    """Return the value of the field, checked under the name of the keyword."""
    option: DeclaredOption = OPTIONS[name]
    if get_origin(plain_type(option.type)) is tuple:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        value = tuple(value) if isinstance(value, list) else value
        if name == "maps" and value == ("none",):
            return ()
    check_value(name, value, option.type, option.declared)
    return value


def _near(name: str) -> str:
    """Say which keyword may be meant."""
    known = [*OPTIONS, *_PRESETS, *_BESIDE]
    near = [_CALLED[name]] if name in _CALLED else difflib.get_close_matches(name, known, n=3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"expected one of: {', '.join(known)}"
