import re
from dataclasses import replace

import numpy as np
import pytest

from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.comparison.warnings import warn_of_sources
from repalign.store.open import as_source
from repalign.store.source import EmbeddingSource


def source(seed: int, **spec: object) -> EmbeddingSource:
    rows = np.random.default_rng(seed).standard_normal((20, 2))
    made = as_source(rows, name=f"array {seed}")
    return replace(made, view="final", info={**made.info, "spec": spec})


def view(family: str, module: str, layer: str = "final") -> dict[str, object]:
    views = {"final": {"layer": layer, "module": module, "side": "output", "pool": "patch-mean"}}
    return {"family": family, "tokens": "all", "views": views}


def test_names_that_libraries_give_to_the_same_thing_are_no_difference() -> None:
    first = source(0, view=view("vit-mae", "layernorm"), preprocess={"name": "a", "resize": 32})
    second = source(1, view=view("vit", "norm"), preprocess={"name": "b", "resize": 32})
    assert warn_of_sources(first, second) == []


def test_another_layer_or_another_size_is_told() -> None:
    first = source(0, view=view("vit", "norm"), preprocess={"name": "a", "resize": 32})
    second = source(1, view=view("vit", "norm", "block1"), preprocess={"name": "a", "resize": 36})
    layer, resize = warn_of_sources(first, second)
    assert re.search(r"array 0 .*array 1 .*view \(layer\)", layer)
    assert re.search(r"array 0 .*array 1 .*preprocess \(resize\)", resize)


def test_layers_chosen_among_several_are_no_difference_but_pooling_is() -> None:
    others = {"block1": {"layer": "block1", "module": "b1", "side": "output", "pool": "mean"}}
    first, second = view("vit", "norm"), view("vit", "norm", "block9")
    first["views"] = {**others, **first["views"]}  # type: ignore[dict-item]
    assert warn_of_sources(source(0, view=first), source(1, view=second)) == []
    second["views"]["final"]["pool"] = "cls"  # type: ignore[index]
    (pool,) = warn_of_sources(source(0, view=first), source(1, view=second))
    assert re.search(r"array 0 .*array 1 .*view \(pool\)", pool)


def test_equal_weights_are_told_and_other_weights_are_not() -> None:
    model = {"id": "x", "file_sha256": {"model.safetensors": "ab"}}
    other = {"id": "x", "file_sha256": {"model.safetensors": "cd"}}
    (warning,) = warn_of_sources(source(0, model=model), source(1, model=model))
    assert re.search("array 0 .*array 1 .*same weights", warning)
    assert warn_of_sources(source(0, model=model), source(1, model=other)) == []


def test_equal_content_is_told() -> None:
    copy = replace(source(0), name="copy")
    (warning,) = warn_of_sources(source(0), copy)
    assert "same values" in warning


def test_views_of_one_store_are_compared_without_a_word_about_the_store() -> None:
    model = {"id": "x", "file_sha256": {"model.safetensors": "ab"}}
    other_view = replace(source(1, model=model), name="array 0")
    assert warn_of_sources(source(0, model=model), other_view) == []
    assert warn_of_sources(source(0), source(0)) == []


def told_of_rigid(x: np.ndarray, y: np.ndarray) -> list[str]:
    settings = CompareSettings(maps=("rigid",), n_null=0, n_halves=0)
    return [text for text in compare(x, y, settings=settings).warnings if "determine" in text]


def test_what_the_rows_leave_to_a_convention_is_told() -> None:
    x = np.random.default_rng(0).standard_normal((20, 30))
    first, second = told_of_rigid(x, x[:, ::-1].copy())
    assert re.search("in-sample, 20 rows .*rigid .*19 of 30 .*convention", first)
    share = re.search(r"held-out, 16 rows .*rigid .*15 of 30 .* (\S+) % ", second)
    assert share
    assert 1 < float(share[1]) < 40


def test_repeated_rows_that_vary_in_nothing_else_are_no_reason_to_warn() -> None:
    x = np.repeat(np.random.default_rng(0).standard_normal((8, 10)), 5, axis=0)
    assert told_of_rigid(x, x[:, ::-1].copy()) == []  # nothing varies where nothing is known


def test_columns_without_any_variance_are_no_reason_to_warn() -> None:
    x = np.random.default_rng(0).standard_normal((80, 6))
    level = (x - x.mean(axis=1, keepdims=True)).astype(np.float32)  # as LayerNorm leaves it
    assert told_of_rigid(level, level[:, ::-1].copy()) == []


def warnings_of(x: np.ndarray, y: np.ndarray, *more: str) -> str:
    maps = ("mean", "permutation", "rigid", "linear", *more)
    return "\n".join(compare(x, y, quick=True, maps=maps).warnings)


def test_a_permutation_that_fails_for_the_scale_alone_is_told_with_the_map_that_has_one() -> None:
    x = np.random.default_rng(0).laplace(size=(60, 3))
    told = warnings_of(x, 1e-20 * x[:, ::-1])
    assert "permutation+scale to " in told
    assert "read permutation+scale" in warnings_of(x, 1e-20 * x, "permutation+scale")
    narrow = warnings_of(x, 100 * x)
    assert "1e+02 times wider" in narrow
    assert "permutation+scale" not in warnings_of(x, 4 * x)
    assert "permutation+scale" not in warnings_of(x, x[:, ::-1])


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ([20] * 9, "in-sample, no interval: 9 groups"),
        ([20] * 10, None),
        ([19, 20, 21] * 4, None),
        ([100, 50, 33, *[10] * 20], "no interval: 23 groups (worth 9.4 "),
        # of these so many are left out in bundles, the large one among others
        ([3] * 150, None),
        ([60, *[1] * 100], "no interval: 101 groups (worth 6.9 "),
    ],
)
def test_few_groups_and_many_that_are_worth_few_have_no_interval(
    sizes: list[int], says: str | None
) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((groups.size, 2))
    settings = CompareSettings(maps=("mean", "rigid"), held_out=0, n_null=0)
    result = compare(x, x + rng.standard_normal(x.shape), groups=groups, settings=settings)
    told = [text for text in result.warnings if "no interval" in text]
    assert len(told) == (says is not None)
    assert says is None or says in told[0]
    assert all((record.ci_low is None) == (says is not None) for record in result.records)


def test_rows_that_follow_each_other_are_warned_of_where_no_groups_are_given() -> None:
    rng = np.random.default_rng(0)
    steps = rng.standard_normal((300, 4))
    for row in range(1, 300):
        steps[row] += 0.9 * steps[row - 1]
    documents = np.repeat(np.arange(30), 10)
    y = steps @ rng.standard_normal((4, 4))
    settings = CompareSettings(maps=("rigid",), n_null=9)
    assert any("next to each" in w for w in compare(steps, y, settings=settings).warnings)
    grouped = compare(steps, y, groups=documents, settings=settings)
    assert not any("next to each" in text for text in grouped.warnings)
    order = rng.permutation(300)
    mixed = compare(steps[order], y[order], settings=settings)
    assert not any("next to each" in text for text in mixed.warnings)
