from dataclasses import replace

import numpy as np

from repalign.store.in_memory import as_source
<<<<<<< HEAD
from repalign.workflows.pair_warnings import warn_of_sources


def sources(first: dict, second: dict) -> list:
    rng = np.random.default_rng(0)
    return [
        replace(as_source(rng.standard_normal((5, 2)), name=name), info={"spec": spec})
        for name, spec in (("a", first), ("b", second))
    ]


def test_equal_weights_are_said() -> None:
    model = {"model": {"id": "x", "file_sha256": {"model.safetensors": "ab"}}}
    assert warn_of_sources(*sources(model, model)) == [
        "a and b come from the same weights: they differ only in how they were read"
    ]


def test_other_weights_are_no_warning() -> None:
    first = {"model": {"file_sha256": {"model.safetensors": "ab"}}}
    second = {"model": {"file_sha256": {"model.safetensors": "cd"}}}
    assert warn_of_sources(*sources(first, second)) == []


def test_views_that_differ_are_said_with_the_keys() -> None:
    first = {"view": {"tokens": "all", "family": "decoder"}, "preprocess": {"resize": 32}}
    second = {"view": {"tokens": "last", "family": "decoder"}, "preprocess": {"resize": 64}}
    assert warn_of_sources(*sources(first, second)) == [
        "a and b differ in view (tokens): errors include that difference",
        "a and b differ in preprocess (resize): errors include that difference",
    ]


def test_equal_content_is_said() -> None:
    values = np.random.default_rng(0).standard_normal((5, 2))
    pair = as_source(values, name="a"), as_source(values.copy(), name="b")
    assert "exactly the same values" in warn_of_sources(*pair)[0]
=======
from repalign.store.source import EmbeddingSource
from repalign.workflows.pair_warnings import warn_of_sources


def source(seed: int, **spec: object) -> EmbeddingSource:
    rows = np.random.default_rng(seed).standard_normal((20, 2))
    made = as_source(rows, name=f"array {seed}")
    return replace(made, info={**made.info, "spec": spec})


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
    assert warn_of_sources(first, second) == [
        "array 0 and array 1 differ in view (views): errors include that difference",
        "array 0 and array 1 differ in preprocess (resize): errors include that difference",
    ]
>>>>>>> zoo
