"""Results go through bytes unchanged, and nothing else does."""

import numpy as np
import pytest

from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.engine.cache import decode, encode
from repalign.engine.engine import Engine
from repalign.exceptions import InputError
from repalign.store.open import as_source


class Recording:
    """A cache that holds nothing, and notes what it would keep by its name."""

    def __init__(self) -> None:
        self.results: dict[str, object] = {}

    def find(self, key, machine):
        return None

    def keep(self, key, machine, result):
        self.results[key] = result


def test_every_result_of_a_comparison_is_the_same_after_bytes() -> None:
    rng = np.random.default_rng(0)
    rows = rng.laplace(size=(150, 3))
    heard = Recording()
    settings = CompareSettings(n_null=9, n_halves=3, measures=("linear-cka",))
    sources = [as_source(rows, name="a"), as_source(rows @ rng.standard_normal((3, 3)), name="b")]
    compare(*sources, settings=settings, executor=Engine(heard))
    kinds = {key.split("-")[0] for key in heard.results}
    assert kinds == {"moments", "ica", "scale", "pair"}
    for result in heard.results.values():
        content = encode(result)
        assert encode(decode(content)) == content
    (pair,) = [value for key, value in heard.results.items() if key.startswith("pair")]
    again = decode(encode(pair))
    assert again[0].records == pair[0].records  # type: ignore[index]
    assert again[0].measures == pair[0].measures  # type: ignore[index]
    assert again[0].report == pair[0].report  # type: ignore[index]
    methods = {each.replicates.method for each in again[0].resampled}  # type: ignore[index]
    assert methods == {"delete-a-group", "delete-half"}


def test_what_is_no_part_of_a_result_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Engine: .*class"):
        encode((1, Engine()))
    with pytest.raises(InputError, match="no tree"):
        decode(encode(1.5).replace(b"tree", b"eert"))
