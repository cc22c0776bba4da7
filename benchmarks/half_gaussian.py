"""Held-out ICA efficiency where half of the sources are Gaussian, next to the planted one.

Twelve sources, six Laplace and six Gaussian, are seen through two rotations with a little noise.
Perfect ICA finds the Laplace half and an arbitrary rotation of the other: the efficiency of such
components, averaged over rotations, is the truth. Prints how `repalign.compare` estimates it.

    python benchmarks/half_gaussian.py --rows 1500,4000,8000 --trials 100
"""

import argparse

import numpy as np

import repalign
from repalign.core.linalg import match_signed, random_rotation

DIM, NOISE = 12, 0.1
MAPS = ("permutation", "rigid", "ica")
_rotations = np.random.default_rng(99)
TO_X, TO_Y = (random_rotation(DIM, _rotations) for _ in range(2))


def sample(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of both sides."""
    half = DIM // 2
    sources = np.hstack(
        [rng.laplace(size=(n, half)) / np.sqrt(2), rng.standard_normal((n, DIM - half))]
    )
    return sources @ TO_X, sources @ TO_Y + NOISE * rng.standard_normal((n, DIM))


def components(to_side: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return what perfect ICA of one side finds: its sources, the Gaussian half rotated."""
    half = DIM // 2
    rotation = np.eye(DIM)
    rotation[half:, half:] = random_rotation(DIM - half, rng)
    return to_side.T @ rotation


def matched(similarity: np.ndarray) -> np.ndarray:
    """Return the signed permutation that maximises the matched similarity."""
    pairs = match_signed(similarity)
    matrix = np.zeros_like(similarity)
    matrix[pairs.source, pairs.target] = pairs.sign
    return matrix


def planted(draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return the efficiency of perfect ICA, by draw of its arbitrary rotations."""
    x, y = (side - side.mean(0) for side in sample(100_000, rng))
    across = x.T @ y

    def error(matrix: np.ndarray) -> float:
        return float(np.linalg.norm(x @ matrix - y, axis=1).mean())

    left, values, right = np.linalg.svd(across)
    rigid = error(left @ right * values.sum() / (x**2).sum())
    permutation = error(matched(across))
    efficiencies = []
    for _ in range(draws):
        of_x, of_y = components(TO_X, rng), components(TO_Y, rng)
        scale_x, scale_y = (x @ of_x).std(0), (y @ of_y).std(0)
        pairs = matched(of_x.T @ across @ of_y / np.outer(scale_x, scale_y))
        ica = of_x / scale_x @ pairs * scale_y @ of_y.T
        efficiencies.append((permutation - error(ica)) / (permutation - rigid))
    return np.array(efficiencies)


def main() -> None:
    """Print one line for every number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="1500,4000,8000")
    parser.add_argument("--trials", type=int, default=100)
    options = parser.parse_args()
    truth = planted(200, np.random.default_rng(5))
    print(f"planted: {truth.mean():.3f}, deviation over arbitrary rotations {truth.std():.3f}")
    for n in map(int, options.rows.split(",")):
        rows = []
        for trial in range(options.trials):
            x, y = sample(n, np.random.default_rng((trial, n)))
            result = repalign.compare(x, y, maps=MAPS, null=0, rotations=19, seed=trial)
            ica = {record.split: record for record in result.records if record.map == "ica"}
            record = ica["held-out"]
            ends = record.efficiency_low, record.efficiency_high
            rows.append([record.efficiency, *ends, ica["in-sample"].efficiency])
        held_out, low, high, in_sample = np.array(rows, dtype=float).T
        holds = ((low <= truth.mean()) & (truth.mean() <= high)).mean()
        print(
            f"{n} rows: held-out {held_out.mean():.3f} (deviation {held_out.std():.3f}), "
            f"interval over the planted one {holds:.2f}; in-sample {in_sample.mean():.3f} "
            f"(deviation {in_sample.std():.3f}); {options.trials} trials",
            flush=True,
        )


if __name__ == "__main__":
    main()
