"""Seeded inputs for which reference implementations were run, and what they printed."""

import json
from pathlib import Path

import numpy as np

FILE = Path(__file__).parents[2] / "data/oracles/similarity.json"
CASES = json.loads(FILE.read_text())["cases"]


def case(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The two representations of a case, drawn again from its recipe."""
    rng = np.random.default_rng(CASES[name]["seed"])
    a = rng.standard_normal((500, 8))
    if name == "orthogonal":
        return a, 2.5 * a @ np.linalg.qr(rng.standard_normal((8, 8)))[0] + 1
    if name == "linear":
        return a, a @ rng.standard_normal((8, 8))
    return a, rng.standard_normal((500, 8))
