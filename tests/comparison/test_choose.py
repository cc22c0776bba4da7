"""Who takes part in a comparison, under which name, and who is compared with whom."""

from pathlib import Path

import numpy as np
import pytest

from repalign.comparison.choose import (
    check_count,
    choose_pairs,
    open_models,
    pairs_against,
)
from repalign.comparison.settings import CompareSettings
from repalign.exceptions import InputError
from repalign.store import write_store
from repalign.store.open import as_source
from repalign.store.source import EmbeddingSource

VALUES = np.random.default_rng(0).standard_normal((20, 3))


@pytest.fixture
def stores(tmp_path: Path) -> list[str]:
    for name in "ab":
        write_store(tmp_path / f"{name}.h5", {"block-0": VALUES, "block-1": VALUES + 1})
    return [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]


def told(models) -> list[tuple[str, list[str]]]:
    return [(name, [view.view for view in views]) for name, views in models.items()]


def test_views_of_a_file_are_one_model_wherever_they_stand(stores) -> None:
    a, b = stores
    found = told(open_models([f"{a}::block-1", b, f"{a}::block-0"], ["all"]))
    assert found == [(a, ["block-1", "block-0"]), (b, ["block-0", "block-1"])]


def test_names_stand_for_inputs_and_one_name_is_one_model(stores, tmp_path: Path) -> None:
    a, b = stores
    assert told(open_models([a, b], ["block-1"], names=["A", None])) == [
        ("A", ["block-1"]),
        (b, ["block-1"]),
    ]
    split = [f"{a}::block-0", f"{b}::block-1"]
    assert told(open_models(split, [], names=["A", "A"])) == [("A", ["block-0", "block-1"])]


def test_an_input_given_twice_is_two_models(stores) -> None:
    first = f"{stores[0]}::block-0"
    assert list(open_models([first, first], [])) == [
        f"{stores[0]} (1)",
        f"{stores[0]} (2)",
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["A"], "got 1 for 2 inputs"),
        (["A", "A"], "'A' .*'block-0'"),
        (["A", ""], "empty"),
    ],
)
def test_names_that_do_not_fit_are_refused(stores, names, message) -> None:
    with pytest.raises(InputError, match=message):
        open_models(stores, ["all"], names=names)


def test_a_bare_store_of_several_views_says_how_to_take_them(stores) -> None:
    with pytest.raises(InputError, match=r"choose one: .*--layers all, --layers 'block-\*'$"):
        open_models(stores, [])


def models_of(n_rows: int = 10, **n_views: int) -> dict[str, list[EmbeddingSource]]:
    rows = np.zeros((n_rows, 2))
    return {
        name: [as_source(rows, name=f"{name}{number}") for number in range(n)]
        for name, n in n_views.items()
    }


def in_words(pairs: list[tuple[EmbeddingSource, EmbeddingSource]]) -> str:
    return " ".join(f"{one.name}{other.name}" for one, other in pairs)


def test_pairs_are_across_models_model_by_model() -> None:
    models = models_of(a=2, b=1, c=2)
    across = "a0b0 a1b0 a0c0 a0c1 a1c0 a1c1 b0c0 b0c1"
    assert in_words(choose_pairs(models, within=False)) == across
    assert set(in_words(choose_pairs(models, within=True)).split()) == {
        *across.split(),
        "a0a1",
        "c0c1",
    }


def test_layers_of_a_single_model_are_compared_with_each_other() -> None:
    assert in_words(choose_pairs(models_of(a=3), within=False)) == "a0a1 a0a2 a1a2"


def test_against_takes_every_view_of_both() -> None:
    fixed = models_of(r=2)["r"]
    assert in_words(pairs_against(fixed, models_of(a=2))) == "r0a0 r0a1 r1a0 r1a1"


def test_nothing_to_pair_is_refused() -> None:
    with pytest.raises(InputError, match="got 1 set"):
        choose_pairs(models_of(a=1), within=True)


def test_more_pairs_than_meant_are_refused() -> None:
    pairs = choose_pairs(models_of(5000, a=40, b=40), within=False)
    check_count(pairs, CompareSettings(max_pairs=1600))
    with pytest.raises(InputError, match=r"80 views .* 1,600 pairs"):
        check_count(pairs, CompareSettings(max_pairs=1599))
