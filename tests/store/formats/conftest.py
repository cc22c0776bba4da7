"""One matrix and its ids, which the tests save in every layout."""

import numpy as np
import pytest


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)


@pytest.fixture
def names() -> list[str]:
    return [f"cat-{row}" for row in range(50)]
