from dataclasses import replace

import numpy as np

from repalign.store.in_memory import as_source
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
