"""The best match of every layer among those of another model."""

import json
from pathlib import Path

import numpy as np
import pytest

import repalign

SETTINGS = repalign.CompareSettings(
    maps=("rigid",), measures=("linear-cka", "procrustes-angle"), n_null=19, n_halves=12
)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[str]:
    """Layers of a hold the third, second and first part of b; the target's scales differ."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(1)
    parts = rng.laplace(size=(3, 150, 4))
    a = {f"layer-{i}": part @ turn(rng) for i, part in enumerate(parts)}
    b = {
        f"block-{2 - i}": 10.0**i * (part @ turn(rng) + 0.3 * rng.laplace(size=(150, 4)))
        for i, part in enumerate(parts)
    }
    # one outlying row makes a diameter that flatters every error
    b["block-0"][3] *= 8
    for name, views in (("a", a), ("b", b)):
        np.savez(folder / f"{name}.npz", **dict(sorted(views.items())))
    return [f"{folder}/a.npz::*", f"{folder}/b.npz::*"]


def turn(rng: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((4, 4)))[0]


@pytest.fixture(scope="module")
def result(models) -> repalign.CompareResult:
    return repalign.compare(*models, settings=SETTINGS)


@pytest.mark.parametrize("by", ["rigid", "linear-cka", "procrustes-angle"])
@pytest.mark.parametrize("split", ["in-sample", "held-out"])
def test_every_layer_finds_its_own(result, by: str, split: str) -> None:
    found = [match for match in result.matches if (match.by, match.split) == (by, split)]
    # CKA fits nothing, and so is computed once, on all rows
    assert len(found) == (0 if (by, split) == ("linear-cka", "held-out") else 6)
    for match in found:
        assert match.view[-1] == str(2 - int(match.best[-1]))
        assert (match.n_candidates, match.note) == (3, None)
        assert match.best in match.plausible
        assert match.better == ("↑" if by == "linear-cka" else "↓")
    names = {(each.side, Path(each.model).name, Path(each.other).name) for each in found}
    assert not found or names == {
        ("source", "a.npz", "b.npz"),
        ("target", "b.npz", "a.npz"),
    }


def test_values_are_those_of_the_records(result) -> None:
    for match in result.matches:
        if match.side == "source":
            held = [*result.records, *result.measures]
            (record,) = [
                each
                for each in held
                if (each.source_view, each.target_view, each.split)
                == (match.view, match.best, match.split)
                and match.by in (getattr(each, "map", None), getattr(each, "measure", None))
            ]
            assert getattr(record, match.column) == match.value
            assert record.p_search == match.p_search


def test_without_intervals_none_can_be_excluded(models) -> None:
    from dataclasses import replace

    result = repalign.compare(*models, settings=replace(SETTINGS, n_halves=0, n_null=0))
    assert {match.plausible for match in result.matches} == {None}
    assert all("no interval" in match.note for match in result.matches)


def test_candidates_of_which_other_rows_were_left_out_do_not_compare() -> None:
    from repalign.comparison.search import Resampled, _together
    from repalign.core.resampling.intervals import delete_a_group

    replicates = delete_a_group(np.random.default_rng(0).random((1, 20)), np.arange(20))
    first, second = (Resampled("rigid", "held-out", None, replicates, rows) for rows in "ab")
    assert "different rows" in _together([first, second])
    assert not isinstance(_together([first, first]), str)


def test_a_match_is_a_record(result) -> None:
    told = json.loads(json.dumps(result.to_dict()["matches"]))
    assert len(told) == len(result.matches)
    row = result.matches[0].to_dict()
    assert row["plausible"].startswith("block-")
    assert list(row)[:6] == ["model", "view", "layer", "side", "other", "by"]


def test_one_candidate_is_no_match() -> None:
    rng = np.random.default_rng(0)
    result = repalign.compare(*rng.standard_normal((2, 60, 3)), settings=SETTINGS)
    assert result.matches == ()
