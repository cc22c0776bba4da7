"""Which views are compared with which."""

import numpy as np
import pytest

from repalign.exceptions import InputError
from repalign.store.sources.in_memory import as_source
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.study.inputs import Model
from repalign.workflows.study.pairs import check_count, choose_pairs, pairs_against


def model(name: str, n_views: int, n_rows: int = 10) -> Model:
    rows = np.zeros((n_rows, 2))
    return Model(name, tuple(as_source(rows, name=f"{name}{i}") for i in range(n_views)))


def told(pairs: list[tuple[EmbeddingSource, EmbeddingSource]]) -> str:
    return " ".join(f"{one.name}{other.name}" for one, other in pairs)


def test_pairs_are_across_models_model_by_model() -> None:
    models = [model("a", 2), model("b", 1), model("c", 2)]
    across = "a0b0 a1b0 a0c0 a0c1 a1c0 a1c1 b0c0 b0c1"
    assert told(choose_pairs(models, within=False)) == across
    assert set(told(choose_pairs(models, within=True)).split()) == {
        *across.split(),
        "a0a1",
        "c0c1",
    }


def test_layers_of_a_single_model_are_compared_with_each_other() -> None:
    assert told(choose_pairs([model("a", 3)], within=False)) == "a0a1 a0a2 a1a2"


def test_against_takes_every_view_of_both() -> None:
    fixed = model("r", 2).views
    assert told(pairs_against(fixed, [model("a", 2)])) == "r0a0 r0a1 r1a0 r1a1"


def test_nothing_to_pair_is_refused() -> None:
    with pytest.raises(InputError, match="got 1 set of embeddings, expected at least two"):
        choose_pairs([model("a", 1)], within=True)


def test_more_pairs_than_meant_are_refused_with_their_cost() -> None:
    pairs = choose_pairs([model("a", 40, 5000), model("b", 40, 5000)], within=False)
    check_count(pairs, CompareSettings(max_pairs=1600))
    told = (
        r"80 views of .* are 1,600 pairs, about \d+ minutes of one core beside 80 ICAs, nearly all"
    )
    with pytest.raises(InputError, match=told):
        check_count(pairs, CompareSettings(max_pairs=1599))
    plain = CompareSettings(maps=("rigid",), n_null=0, n_refits=0, max_pairs=1599)
    with pytest.raises(InputError, match=r"about \d+ minutes? of one core; take|about a minute of"):
        check_count(pairs, plain)
