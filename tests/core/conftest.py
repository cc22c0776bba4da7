"""The seeded inputs for which reference implementations were run, and what they printed."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from repalign.core.factors.encoding import Factors, encode_factors

LEVELS = (3, 4, 6, 8)
N_ROWS = 1500
_ORACLES = json.loads((Path(__file__).parents[1] / "data/oracles/infomec.json").read_text())[
    "cases"
]


def _case(name: str) -> tuple[Factors, np.ndarray]:
    """Factors and latents of one oracle case, drawn again from its recipe."""
    oracle = _ORACLES[name]
    rng = np.random.default_rng(oracle["seed"])
    sources = np.stack([rng.integers(0, levels, size=N_ROWS) for levels in LEVELS], axis=1)
    return _as_factors(sources), _latents(name, sources, rng).astype(np.float64)


def _as_factors(sources: np.ndarray) -> Factors:
    return encode_factors(
        {f"factor{j}": sources[:, j] for j in range(sources.shape[1])},
        kinds={f"factor{j}": "discrete" for j in range(sources.shape[1])},
    )


def _latents(name: str, sources: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if name == "noise":
        return rng.standard_normal((N_ROWS, 4))
    if name == "discrete":
        s0, s1, s2, s3 = sources.T
        return np.column_stack([s1, s0, s3, s2 // 2, 0 * s0, 4 * s0 + s1])
    if name == "exact_identity":
        return np.column_stack([sources, np.full(N_ROWS, 2.0)])
    scaled = (sources - sources.mean(axis=0)) / sources.std(axis=0)
    noisy = scaled + 0.1 * rng.standard_normal((N_ROWS, 4))
    if name == "inactive":
        return np.column_stack([noisy, 1e-3 * rng.standard_normal((N_ROWS, 3))])
    if name == "rotated":
        return noisy @ np.array(_ORACLES[name]["rotation"])
    return noisy


@pytest.fixture(scope="session")
def oracles() -> Mapping[str, Mapping]:
    """What the reference implementations printed, by case."""
    return _ORACLES


@pytest.fixture(scope="session")
def case() -> Callable[[str], tuple[Factors, np.ndarray]]:
    """Factors and latents of a named case."""
    return _case


@pytest.fixture(scope="session")
def as_factors() -> Callable[[np.ndarray], Factors]:
    """Discrete factors from an array of integers."""
    return _as_factors
