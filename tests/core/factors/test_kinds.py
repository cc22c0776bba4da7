"""What every disentanglement score must do; a new one is tested by standing in the list."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from repalign.core.factors.encoding import encode_factors
from repalign.core.factors.infomec import PRESETS
from repalign.core.factors.kinds import GROUPS, SCORES, InfoMecPreset, ScoreKind
from repalign.core.factors.scores import SCORE_OF, ScoreInputs

DOCS = Path(__file__).parents[3] / "docs" / "disentangle.md"
SCALE_FREE = [kind for kind in SCORES if kind.is_scale_free]


def named(kind: ScoreKind) -> str:
    return kind.name


Change = Callable[[np.ndarray], np.ndarray]


def as_it_is(latents: np.ndarray) -> np.ndarray:
    return latents


def mixed(latents: np.ndarray) -> np.ndarray:
    """The same sum in every latent, beside noise."""
    sums = latents[:, :3].sum(axis=1, keepdims=True)
    return sums + np.random.default_rng(1).normal(size=latents.shape)


def tiny(latents: np.ndarray) -> np.ndarray:
    return latents * 2.0**-20


def huge(latents: np.ndarray) -> np.ndarray:
    return latents * 1e6


def turned_round(latents: np.ndarray) -> np.ndarray:
    return latents[:, ::-1].copy()


@cache
def inputs(change: Change, n_rows: int) -> ScoreInputs:
    """Three factors, each in a latent of its own, and one of noise; scores of a group share."""
    rng = np.random.default_rng(0)
    shape, hue, size = rng.integers(0, 3, n_rows), rng.integers(0, 4, n_rows), rng.random(n_rows)
    factors = encode_factors({"shape": shape, "hue": hue, "size": size})
    signal = np.column_stack([shape, hue, 3 * size]) + 0.3 * rng.normal(size=(n_rows, 3))
    return ScoreInputs(factors, change(np.column_stack([signal, rng.normal(size=n_rows)])))


def value(kind: ScoreKind, change: Change = as_it_is) -> float:
    (score,) = inputs(change, 150 if kind.name.startswith("DCI") else 600).scores([kind.name])
    assert score.name == kind.name
    assert score.value is not None, score.reason
    return score.value


def test_names_are_distinct_and_each_has_its_function() -> None:
    assert list(SCORE_OF) == [kind.name for kind in SCORES]
    assert len({kind.name for kind in SCORES}) == len(SCORES)
    assert len({group.name for group in GROUPS}) == len(GROUPS)


@pytest.mark.parametrize("kind", SCORES, ids=named)
def test_a_score_prefers_a_latent_for_each_factor_to_a_mixture(kind: ScoreKind) -> None:
    assert (value(kind) > value(kind, mixed)) == (kind.direction == "↑")


@pytest.mark.parametrize("kind", SCORES, ids=named)
def test_equal_seeds_give_equal_values(kind: ScoreKind) -> None:
    first = value(kind)
    inputs.cache_clear()
    assert value(kind) == first


@pytest.mark.parametrize("change", [tiny, huge])
@pytest.mark.parametrize("kind", SCALE_FREE, ids=named)
def test_the_scale_of_all_latents_changes_nothing(kind: ScoreKind, change: Change) -> None:
    # Logistic regressions stop where the gradient is small: equal to their tolerance.
    assert value(kind, change) == pytest.approx(value(kind), rel=1e-5)


@pytest.mark.parametrize("kind", SCORES, ids=named)
def test_the_order_of_latents_changes_nothing(kind: ScoreKind) -> None:
    # Equal splits of trees are drawn at random; neighbours that tie get a jitter by column.
    tolerance = 0.05 if kind.name.startswith("DCI") else 1e-4
    assert value(kind, turned_round) == pytest.approx(value(kind), abs=tolerance)


def test_every_preset_of_infomec_has_settings() -> None:
    assert set(PRESETS) == set(get_args(InfoMecPreset))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_the_docs_define_every_score(group) -> None:
    written = DOCS.read_text(encoding="utf-8")
    for kind in group.scores:
        row = f"| {kind.heading} | `{group.name}` | {kind.definition} |"
        assert row in written, f"docs/disentangle.md lacks the row: {row}"
