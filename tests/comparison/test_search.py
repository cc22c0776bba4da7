"""The best of many layer pairs, as ``compare`` tells it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import repalign
from repalign.comparison.search import families

SETTINGS = repalign.CompareSettings(
    maps=("mean", "rigid"), measures=("linear-cka",), n_null=39, n_halves=0
)


def layers(name: str, n: int, seed: int, shared: np.ndarray | None = None) -> list:
    """Open views of one model, of which the last may hold what is shared."""
    rng = np.random.default_rng(seed)
    values = [rng.standard_normal((120, 3)) for _ in range(n)]
    if shared is not None:
        values[-1] = shared + 0.5 * values[-1]
    ids = [f"row {number}" for number in range(120)]
    return [(f"{name}-{number}", each, ids) for number, each in enumerate(values)]


@pytest.fixture
def models(tmp_path):
    """Two models of two layers in files, of which the last ones share something."""
    shared = np.random.default_rng(9).standard_normal((120, 3))
    for name, seed in (("a", 1), ("b", 2)):
        views = {view: values for view, values, _ in layers("layer", 2, seed, shared)}
        np.savez(tmp_path / f"{name}.npz", **views)
    return [f"{tmp_path / name}.npz::layer-*" for name in ("a", "b")]


def by_pair(records) -> dict:
    return {
        (each.source_view, each.target_view, each.split): each
        for each in records
        if getattr(each, "map", "rigid") == "rigid"
    }


def test_the_aligned_pair_is_found_among_all(models) -> None:
    result = repalign.compare(*models, settings=SETTINGS)
    for records in (by_pair(result.records), by_pair(result.measures)):
        for (source, target, _), record in records.items():
            assert record.n_searched == 4
            assert record.p_search >= record.p_value
            is_aligned = (source, target) == ("layer-1", "layer-1")
            assert (record.p_search == 1 / 40) == is_aligned
    assert {record.p_search for record in result.records if record.map == "mean"} == {None}
    assert any("rest on 39 shuffles" in warning for warning in result.warnings)
    assert "p search" in result.table()


def test_what_one_pair_says_alone_it_says_among_others(models) -> None:
    every = by_pair(repalign.compare(*models, settings=SETTINGS).records)
    alone = repalign.compare(
        models[0].replace("*", "1"), models[1].replace("*", "0"), settings=SETTINGS
    )
    for split in ("in-sample", "held-out"):
        one = by_pair(alone.records)["layer-1", "layer-0", split]
        among = every["layer-1", "layer-0", split]
        assert (one.p_search, one.n_searched) == (None, None)
        told = {"p_search", "n_searched"}
        assert {k: v for k, v in one.to_dict().items() if k not in told} == {
            k: v for k, v in among.to_dict().items() if k not in told
        }


def test_orders_are_the_same_wherever_the_rows_stand() -> None:
    rng = np.random.default_rng(3)
    values = [rng.standard_normal((120, 3)) for _ in range(3)]
    ids = np.array([f"row {number:03}" for number in range(120)])
    plain = repalign.compare(*_frames(values, [ids] * 3), settings=SETTINGS)
    order = rng.permutation(120)
    moved = [values[0], values[1][order], values[2]]
    other = repalign.compare(*_frames(moved, [ids, ids[order], ids]), settings=SETTINGS)
    for first, second in zip(plain.records, other.records, strict=True):
        for name in ("p_value", "p_search", "n_searched", "null"):
            found = getattr(first, name), getattr(second, name)
            assert found[0] == found[1] or np.isclose(*found, rtol=1e-9), name


def _frames(values: list, ids: list) -> list:
    import pandas

    return [
        pandas.DataFrame(each, index=pandas.Index(own, name="id"))
        for each, own in zip(values, ids, strict=True)
    ]


def test_p_values_are_those_of_the_shuffles_in_the_result(models) -> None:
    result = repalign.compare(*models, settings=SETTINGS)
    table = []
    for pair, record in zip(
        result.pairs,
        [each for each in result.records if (each.map, each.split) == ("rigid", "in-sample")],
        strict=True,
    ):
        table.append([record.error, *pair.null_errors["in-sample/rigid"]])
    errors = np.array(table).T
    z = (errors - errors.mean(axis=0)) / errors.std(axis=0)
    expected = (z.min(axis=1)[:, None] <= z[0] + 1e-9).mean(axis=0)
    found = [
        each.p_search for each in by_pair(result.records).values() if each.split == "in-sample"
    ]
    assert_allclose(found, expected)


def test_without_shuffles_there_is_no_search(models) -> None:
    from dataclasses import replace

    result = repalign.compare(*models, settings=replace(SETTINGS, n_null=0))
    assert {record.p_search for record in (*result.records, *result.measures)} == {None}


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ([("a", "b")] * 3, [[0, 1, 2]]),
        ([("a", "b"), ("a", "c"), ("b", "c")], [[0], [1], [2]]),
        ([("a", "b"), ("a", "c")], [[0, 1]]),
        ([("a", "a"), ("a", "a")], []),
        ([("a", "b"), ("b", "a"), ("a", "b")], [[0, 2], [1]]),
        ([("a", "a"), ("a", "b"), ("a", "b")], [[1, 2]]),
    ],
)
def test_which_pairs_are_one_search(models: list, expected: list) -> None:
    assert families(models) == expected
