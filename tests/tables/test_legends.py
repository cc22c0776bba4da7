"""Below a table stands what its lines mean, and nothing of what is not there."""

import numpy as np
import pytest

import repalign
from repalign.tables.measures import HELD_OUT, MORE, SHUFFLED

RNG = np.random.default_rng(0)
X = RNG.laplace(size=(200, 4))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"split": 0.0, "null": 0}, [MORE]),
        ({"split": 0.2, "null": 0}, [HELD_OUT, MORE]),
        ({"split": 0.0, "null": 19}, [SHUFFLED, MORE]),
        ({"split": 0.2, "null": 19}, [HELD_OUT, SHUFFLED, MORE]),
    ],
)
def test_measures_explain_the_lines_that_they_have(options: dict, says: list[str]) -> None:
    result = repalign.compare(X, X + 1, maps="rigid", measures="mean-cca", halves=0, **options)
    assert "; ".join(says) in " ".join(result.table("table").split())


@pytest.mark.parametrize(("scores", "is_told"), [("mcc", False), ("infomec", True)])
def test_the_variant_of_infomec_is_told_with_its_scores(scores: str, is_told: bool) -> None:
    factors = {"a": X[:, 0] > 0, "b": X[:, 1] > 0}
    result = repalign.disentangle(X, factors, scores=[scores], conditions=["raw"], halves=0, null=0)
    assert ("InfoMEC: standard" in result.table("table")) is is_told
