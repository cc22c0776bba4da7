from dataclasses import dataclass, field
from typing import Literal

from repalign.comparison.settings import PRESETS, CompareSettings
from repalign.options import Settings, option
from repalign.spoken import words_of


@dataclass(frozen=True)
class Inner(Settings):
    solver: Literal["fast", "exact"] = option("fast", "How.", flag="inner-solver")
    is_shown: bool = option(True, "Shown.", flag="no-show")


@dataclass(frozen=True)
class Outer(Settings):
    share: float = option(0.2, "Share.", least=0, below=1)
    names: tuple[str, ...] = option(("a",), "Names.", choices=("a", "b"))
    columns: tuple[str, ...] = option((), "Columns.", repeat=True, absent="none")
    both: bool = option(False, "Both.")
    inner: Inner = field(default_factory=Inner)


def test_settings_are_told_in_words_of_the_command_line() -> None:
    changed = Outer(share=0.5, names=("a", "b"), both=True, inner=Inner("exact"))
    assert " ".join(words_of(changed, Outer())) == (
        "--share 0.5 --names a,b --both --inner-solver exact"
    )
    assert words_of(Outer(), Outer()) == []


def test_all_settings_are_told_where_nothing_is_usual() -> None:
    assert " ".join(words_of(Outer())) == "--share 0.2 --names a --inner-solver fast"
    hidden = Outer(columns=("x", "y"), inner=Inner(is_shown=False))
    assert " ".join(words_of(hidden)) == (
        "--share 0.2 --names a --columns x --columns y --inner-solver fast --no-show"
    )


def test_presets_say_all_that_the_defaults_leave_to_them() -> None:
    usual = words_of(CompareSettings())
    for preset in PRESETS.values():
        words = words_of(preset)
        assert words != usual
        assert {"--maps", "--split", "--folds", "--seed"} <= set(words)
