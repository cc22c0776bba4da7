"""Many models, many layers: repalign beside the same arithmetic pair by pair.

python benchmarks/study.py [--stores 20] [--layers 3] [--sample 12] [--directory DIR]

Both sides read the same stores in the same process, one after the other. By hand every pair is
fitted with numpy, scipy and scikit-learn as one would write it down; that side is timed on a
sample of pairs, spread over all, and scaled. In-sample values only on both sides: no held-out
rows, nulls or intervals, which nobody writes by hand.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import repalign
from repalign.comparison.settings import CompareSettings

MAPS = ("mean", "permutation", "rigid", "linear")
NEIGHBOURS, COMPONENTS = 10, 20
MEASURES = ("linear-cka", f"svcca-{COMPONENTS}", f"mutual-knn-{NEIGHBOURS}")


def make_stores(folder: Path, n_stores: int, n_layers: int, shape: tuple[int, int]) -> list[Path]:
    """Write models that share their inputs, layer by layer farther from them."""
    n, d = shape
    shared = np.random.default_rng(99).standard_normal((n, d)) * np.arange(1, d + 1) ** -0.5
    paths = []
    for number in range(n_stores):
        rng = np.random.default_rng(number)
        hidden, views = shared @ np.linalg.qr(rng.standard_normal((d, d)))[0], {}
        for layer in range(n_layers):
            turned = hidden @ rng.standard_normal((d, d)) / np.sqrt(d)
            hidden = np.tanh(3 * turned) + 0.2 * hidden
            views[f"block-{layer}"] = hidden.astype(np.float32)
        paths.append(folder / f"model-{number}.h5")
        if not paths[-1].exists():
            repalign.write_store(paths[-1], views)
    return paths


def by_hand(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return all values of one pair, as one would write it."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial import procrustes
    from scipy.spatial.distance import pdist
    from sklearn.neighbors import NearestNeighbors

    x, y = x.astype(np.float64), y.astype(np.float64)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    width = pdist(y).max()
    cross = x.T @ y
    rows, columns = linear_sum_assignment(-np.abs(cross))
    permuted = np.zeros_like(y)
    permuted[:, columns] = x[:, rows] * np.sign(cross[rows, columns])
    target, turned, _ = procrustes(y, x)
    linear = x @ np.linalg.lstsq(x, y, rcond=None)[0]
    found = {
        "mean": np.linalg.norm(y, axis=1).mean() / width,
        "permutation": np.linalg.norm(permuted - y, axis=1).mean() / width,
        "rigid": np.linalg.norm(turned - target, axis=1).mean() * np.linalg.norm(y) / width,
        "linear": np.linalg.norm(linear - y, axis=1).mean() / width,
        "linear-cka": np.linalg.norm(cross) ** 2
        / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)),
    }
    first, second = (np.linalg.svd(side, full_matrices=False)[0] for side in (x, y))
    canonical = first[:, :COMPONENTS].T @ second[:, :COMPONENTS]
    found[MEASURES[1]] = np.linalg.svd(canonical, compute_uv=False).mean()
    near = [
        NearestNeighbors(n_neighbors=NEIGHBOURS).fit(side).kneighbors(return_distance=False)
        for side in (x, y)
    ]
    shared = [len(set(a) & set(b)) for a, b in zip(*near, strict=True)]
    found[MEASURES[2]] = np.mean(shared) / NEIGHBOURS
    return {name: float(value) for name, value in found.items()}


def timed(function):
    """Return what a function returns, seconds by the clock and processor seconds."""
    clock, processor = time.perf_counter(), time.process_time()
    found = function()
    return found, time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    """Run both sides and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", type=int, default=20)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--sample", type=int, default=12)
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.directory or Path(made)
        paths = make_stores(folder, arguments.stores, arguments.layers, (5000, 256))
        run(paths, arguments.sample)


def run(paths: list[Path], n_sample: int) -> None:
    """Compare all layers of all stores, then some of the pairs by hand."""
    settings = CompareSettings(
        maps=MAPS, measures=MEASURES, held_out=0, n_null=0, n_halves=0, layers=("all",), within=True
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    result, clock, processor = timed(lambda: repalign.compare(*paths, settings=settings))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    values = {}
    for record in result.to_records():
        sides = [(record[side], record[f"{side}_view"]) for side in ("source", "target")]
        name = record["map"] or record["measure"]
        value = record["error"] if record["map"] else record["value"]
        values[sides[0], sides[1], name] = value
    pairs = list(dict.fromkeys(key[:2] for key in values))
    chosen = [pairs[int(place)] for place in np.linspace(0, len(pairs) - 1, n_sample)]
    hand_clock = hand_processor = largest = 0.0
    for first, second in chosen:
        x, y = (
            repalign.open_embeddings(path, view=view).rows.read(0, 5000)
            for path, view in (first, second)
        )
        found, seconds, cpu = timed(lambda x=x, y=y: by_hand(x, y))
        hand_clock, hand_processor = hand_clock + seconds, hand_processor + cpu
        for name, value in found.items():
            ours = values[first, second, name]
            largest = max(largest, abs(ours - value) / abs(value))
    scale = len(pairs) / len(chosen)
    figures = {
        "pairs": len(pairs),
        "views": len({side for pair in pairs for side in pair}),
        "pairs by hand": len(chosen),
        "repalign, s": clock,
        "repalign, processor s": processor,
        "by hand, s, scaled": hand_clock * scale,
        "by hand, processor s, scaled": hand_processor * scale,
        "ratio": hand_clock * scale / clock,
        "ratio of processor s": hand_processor * scale / processor,
        "largest relative difference": largest,
        "memory before, MiB": before,
        "peak memory, MiB": peak,
        "memory cap, MiB": 2048,
        "load": os.getloadavg()[0],
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
