"""Who takes part in a comparison, under which name."""

from pathlib import Path

import numpy as np
import pytest

from repalign.exceptions import InputError
from repalign.store import write_store
from repalign.workflows.study.inputs import open_models

VALUES = np.random.default_rng(0).standard_normal((20, 3))


@pytest.fixture
def stores(tmp_path: Path) -> list[str]:
    for name in "ab":
        write_store(tmp_path / f"{name}.h5", {"block-0": VALUES, "block-1": VALUES + 1})
    return [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]


def told(models) -> list[tuple[str, list[str]]]:
    return [(model.name, [view.view for view in model.views]) for model in models]


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
    assert [model.name for model in open_models([first, first], [])] == [
        f"{stores[0]} (1)",
        f"{stores[0]} (2)",
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["A"], "got 1 for 2 inputs"),
        (["A", "A"], "'A' stands for two inputs of the same view 'block-0'"),
        (["A", ""], "got an empty one"),
    ],
)
def test_names_that_do_not_fit_are_refused(stores, names, message) -> None:
    with pytest.raises(InputError, match=message):
        open_models(stores, ["all"], names=names)


def test_a_bare_store_of_several_views_says_how_to_take_them(stores) -> None:
    with pytest.raises(InputError, match=r"choose one: .*or take several: --layers all"):
        open_models(stores, [])
