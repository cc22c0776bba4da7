"""Damaged results, read and drawn by ``report``."""

import random
from pathlib import Path

import numpy as np

from repalign import InputError, compare
from repalign.cli.formats import as_csv, as_json
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.report.input import Results, read_results
from repalign.workflows.report.run import make_report
from tests.faults.counts import Counts, outcome_of
from tests.faults.damage import damaged_bytes, damaged_csv, damaged_json

SMALL = CompareSettings(n_null=3, n_gaussian=1, n_bootstrap=5)


def small_results() -> dict[str, str]:
    """Return a result of two pairs as JSON and as CSV."""
    rng = np.random.default_rng(0)
    hidden = rng.laplace(size=(120, 3)) * [1, 2, 3]
    turned = [
        hidden @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
        + 0.1 * rng.standard_normal(hidden.shape)
        for _ in range(3)
    ]
    result = compare(*turned[1:], against=turned[0], settings=SMALL)
    return {"json": as_json(result.to_dict()), "csv": as_csv(result.to_records())}


def damage_results(folder: Path, count: int, *, drawn_every: int, seed: int = 0) -> Counts:
    """Read damaged results; every so many are drawn too, since that takes a second."""
    counts = Counts("results (json, csv)")
    originals = small_results()
    expected = {}
    for ending, text in originals.items():
        path = folder / f"damaged.{ending}"
        path.write_text(text)
        expected[ending] = read_results(path)
    for number in range(count):
        ending = ("json", "json", "csv")[number % 3]
        rng = random.Random(f"results {seed} {number}")
        text, path = originals[ending], folder / f"damaged.{ending}"
        if rng.random() < 0.25:
            content = damaged_bytes(text.encode(), rng)
        else:
            made = damaged_json(text, rng) if ending == "json" else damaged_csv(text, rng)
            content = made.encode("utf-8", errors="surrogatepass")
        path.write_bytes(content)
        use = _drawn if number % drawn_every == 0 else read_results
        outcome, why = outcome_of(
            lambda use=use, path=path: use(path), expected[ending], InputError, is_sealed=False
        )
        counts.add(outcome, f"copy {number} of seed {seed}: {why}")
    return counts


def _drawn(path: Path) -> Results:
    assert make_report(path).startswith("<!doctype html>")
    return read_results(path)
