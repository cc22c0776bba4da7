"""Options are declared once, at the field that holds them; everything else follows."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest

from repalign.exceptions import InputError
from repalign.options import (
    Settings,
    nested,
    option,
    options_of,
    recorded_columns,
    recorded_values,
    with_values,
)


@dataclass(frozen=True)
class Inner(Settings):
    solver: Literal["fast", "exact"] = option("fast", "How.", flag="inner-solver", recorded=True)
    passes: int | None = option(None, "How often.", least=1, absent="400")


@dataclass(frozen=True)
class Outer(Settings):
    share: float = option(0.2, "Share.", least=0, below=1)
    names: tuple[str, ...] = option(("a",), "Names.", choices=("a", "b"), recorded=True)
    both: bool = option(False, "Both.")
    inner: Inner = field(default_factory=Inner)


def test_settings_are_an_ordinary_frozen_dataclass() -> None:
    assert Outer(share=0.5) == Outer(share=0.5)
    assert Outer().inner.solver == "fast"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"share": 1.0}, r"share.* 1\.0"),
        ({"share": -1}, "share.* -1"),
        ({"share": float("nan")}, "share.* nan"),
        ({"share": "much"}, "share.* 'much'"),
        ({"share": None}, "share.* None"),
        ({"names": ("c",)}, "names.* c.* a, b"),
        ({"names": ()}, "names.* none"),
        ({"names": "ab"}, "names.* 'ab'.* tuple"),
        ({"both": 1}, "both.* 1"),
        ({"inner": 3}, "inner.* 3.* Inner"),
    ],
)
def test_a_value_that_is_not_allowed_is_named(values: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Outer(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"solver": "fsat"}, "solver.* 'fsat'.* fast, exact"),
        ({"passes": 0}, "passes.* 0"),
        ({"passes": True}, "passes.* True"),
        ({"passes": 1.5}, r"passes.* 1\.5"),
        ({"passes": 10**5000}, "passes.* 2.64"),
    ],
)
def test_nested_settings_check_themselves(values: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Inner(**values)


def test_numpy_numbers_are_numbers() -> None:
    assert Inner(passes=np.int64(3)).passes == 3
    assert Outer(share=np.float64(0.3)).share == 0.3


def test_options_are_listed_with_those_of_nested_settings() -> None:
    found = list(options_of(Outer))
    assert [each.flag for each in found] == ["share", "names", "both", "inner-solver", "passes"]
    assert found[3].path == ("inner", "solver")


def test_values_are_replaced_at_their_paths_and_checked() -> None:
    changed = with_values(Outer(), {("share",): 0.3, ("inner", "solver"): "exact"})
    assert (changed.share, changed.inner.solver, changed.both) == (0.3, "exact", False)
    with pytest.raises(InputError, match="solver"):
        with_values(Outer(), {("inner", "solver"): "none"})


def test_what_is_recorded_becomes_columns() -> None:
    assert recorded_columns(Outer) == ("names", "inner_solver")
    assert recorded_values(Outer(names=("a", "b"))) == {"names": "a,b", "inner_solver": "fast"}


@dataclass(frozen=True)
class Resolved(Settings):
    passes: int | None = option(None, "How often.", recorded="steps", column="n_passes")

    @property
    def steps(self) -> int:
        return self.passes or 400


def test_what_none_stands_for_is_recorded_under_its_own_name() -> None:
    assert recorded_columns(Resolved) == ("n_passes",)
    assert recorded_values(Resolved()) == {"n_passes": 400}


def test_a_real_number_is_real_however_it_is_given() -> None:
    assert str(Outer(share=0).share) == "0.0"


@dataclass(frozen=True)
class Nesting(Settings):
    inner: Inner = nested(Inner(passes=7), without=("solver",))


def test_nested_settings_bring_the_defaults_that_they_are_given_here() -> None:
    assert {each.path: each.default for each in options_of(Nesting)} == {("inner", "passes"): 7}
    assert recorded_columns(Nesting) == ()
    assert with_values(Nesting(), {("inner", "solver"): "exact"}).inner == Inner("exact", passes=7)


@dataclass(frozen=True)
class Percentages(Settings):
    top: tuple[float, ...] = option((5,), "Percentages.", above=0, below=100)
    rate: float = option(0.1, "Rate.", above=0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"top": (5, 0)}, "top.* 0.* 100"),
        ({"rate": 0}, "rate.* 0"),
    ],
)
def test_a_number_can_have_to_exceed_another(values: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Percentages(**values)
