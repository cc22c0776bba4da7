import math
import re

import pytest

from repalign.exceptions import InputError
from repalign.results.files import PairResults, Results
from repalign.results.gates import Bound, Gates, parse_bounds
from repalign.tables.quantities import favourite, quantities_of


def record(target="b", *, split="held-out", name="rigid", error=0.2, ends=(None, None), **more):
    names = {"source": "a", "source_view": "", "target": target, "target_view": ""}
    told = {"map": name, "split": split, "error": error, "ci_low": ends[0], "ci_high": ends[1]}
    return names | told | more


def earlier(*records) -> Results:
    return Results("earlier.json", (PairResults(tuple(records), None),), {}, {})


def broken(gates: Gates, *records) -> tuple[str, ...]:
    return gates.judge(records).broken


def test_a_bound_is_a_name_and_a_number() -> None:
    assert list(parse_bounds(["rigid=0.15", "ica+scale= 1e-2"], "above")) == [
        Bound("rigid", "above", 0.15),
        Bound("ica+scale", "above", 0.01),
    ]


@pytest.mark.parametrize("text", ["rigid", "rigid=", "=1", "rigid=x", "rigid=nan", "rigid=inf"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="a number"):
        list(parse_bounds([text], "below"))


def test_the_limit_itself_holds() -> None:
    assert Bound("rigid", "above", 0.2).holds(0.2)
    assert Bound("rigid", "below", 0.2).holds(0.2)
    assert not Bound("rigid", "above", 0.2).holds(math.nextafter(0.2, 1))
    assert not Bound("rigid", "above", 0.2).holds(None)


def test_held_out_decides_where_it_is_judged() -> None:
    gates = Gates((Bound("rigid", "above", 0.15),))
    pair = [record(split="in-sample", error=0.1), record(error=0.2)]
    (line,) = broken(gates, *pair)
    assert re.search(r"a → b: held-out rigid .*0\.2, .*0\.15$", line)
    assert broken(gates, pair[0]) == ()
    assert gates.judge(pair[:1]).split == "in-sample"


def test_every_pair_has_its_line_and_says_where_the_interval_holds_the_bound() -> None:
    gates = Gates((Bound("rigid", "above", 0.15),))
    lines = broken(
        gates,
        record("b", error=0.2, ends=(0.14, 0.26)),
        record("c", error=0.2, ends=(0.18, 0.22)),
        record("d", error=0.1),
        record("e", error=None),
    )
    assert [line.split(":")[0] for line in lines] == ["a → b", "a → c", "a → e"]
    assert re.search(r"\(95 % 0\.14 to 0\.26 .*chance", lines[0])
    assert lines[1].endswith("(95 % 0.18 to 0.22)")
    assert lines[2].endswith("it is undefined")


def test_the_baseline_allows_what_is_better_and_the_tolerance() -> None:
    before = earlier(record(error=0.2))
    gates = Gates(baseline=before, tolerance=0.02)
    assert broken(gates, record(error=0.21)) == ()
    assert broken(gates, record(error=0.01)) == ()
    (line,) = broken(gates, record(error=0.23))
    assert re.search(r"a → b: held-out rigid .*0\.23, .*0\.22; .*baseline .*0\.2$", line)


def test_an_efficiency_may_not_fall() -> None:
    maps = {"permutation": 0.5, "rigid": 0.1, "ica": 0.2}

    def pair(efficiency: float):
        known = {"efficiency": None, "efficiency_low": None, "efficiency_high": None}
        return [
            record(name=name, error=error, **known | {"efficiency": efficiency})
            for name, error in maps.items()
        ]

    gates = Gates(baseline=earlier(*pair(0.75)), tolerance=0.1)
    assert broken(gates, *pair(0.9)) == ()
    (line,) = broken(gates, *pair(0.6))
    assert re.search(r"held-out efficiency .*0\.6, .*0\.65", line)
    assert len(broken(Gates((Bound("efficiency", "below", 0.7),)), *pair(0.6))) == 1


def test_what_was_judged_otherwise_is_no_evidence() -> None:
    gates = Gates(baseline=earlier(record(split="held-out")), tolerance=0.02)
    (line,) = broken(gates, record(split="in-sample"))
    assert re.search("a → b: rigid .*held-out .*baseline", line)


def test_what_cannot_be_judged_is_refused_before() -> None:
    rigid = quantities_of(["rigid"])
    with pytest.raises(InputError, match=r"'linear' .* rigid"):
        Gates((Bound("linear", "above", 1),)).check(rigid, ())
    gates = Gates(baseline=earlier(record("b"), record("c")))
    gates.check(rigid, [("a", "b"), ("a", "c")])
    with pytest.raises(InputError, match="a → d"):
        gates.check(rigid, [("a", "b"), ("a", "c"), ("a", "d")])
    with pytest.raises(InputError, match="a → c"):
        gates.check(rigid, [("a", "b")])
    with pytest.raises(InputError, match="holds rigid"):
        gates.check(quantities_of(["linear"]), [("a", "b"), ("a", "c")])


def test_one_of_many_is_shown() -> None:
    assert favourite(quantities_of(["mean", "linear", "rigid"])).name == "rigid"
    assert favourite(quantities_of(["mean", "identity"])).name == "mean"
    assert [each.name for each in quantities_of(["rigid", "permutation", "ica"])][
        -1
    ] == "efficiency"


def test_a_similarity_may_not_fall() -> None:
    def measured(value: float):
        told = record(error=None) | {"map": None, "measure": "linear-cka", "better": "↑"}
        return told | {"value": value}

    before = Results("earlier.json", (PairResults((), None, (measured(0.9),)),), {}, {})
    gates = Gates((Bound("linear-cka", "below", 0.5),), before, 0.1)
    gates.check(quantities_of([], ["linear-cka"]), [("a", "b")])
    assert broken(gates, measured(0.95)) == ()
    assert broken(gates, measured(0.85)) == ()
    assert len(broken(gates, measured(0.7))) == 1
    assert len(broken(gates, measured(0.4))) == 2
