"""How often do the 95 % intervals of measures hold what they claim, and do they stay in range?

    python -m benchmarks.measure_intervals --trials 400

Two layers of 4 columns, the second a rotation of the first with noise, rows alone or in groups that
share half of their variance. In-sample the claim is the average value of the procedure (the mean
of the trials stands for it). Held-out, of what is fitted, it is the value of the same fit on 4,000
new rows; of what fits nothing, the average of the trials again. ``plain`` is value ± half width,
without regard to the range.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from repalign.core.inference.left_out import LeftOut
from repalign.core.inference.ranges import ANYWHERE, Range
from repalign.core.inference.splits import held_out_split
from repalign.core.moments import pair_moments
from repalign.core.rows import ArrayRows
from repalign.core.similarity.canonical import FittingMoments
from repalign.core.similarity.evidence import Evidence
from repalign.core.similarity.measures import Measure, measures_called
from repalign.workflows.compare.similarity.judge import JudgedRows, MeasureJudge, SplitValues

# In the order of what they read: moments, rows, distances.
NAMES = "mean-cca,pwcca,linear-cka,pooled-r2,procrustes-angle,mcc-pearson,mutual-knn-10,rsa-pearson"
MEASURES = measures_called(NAMES.split(","))
DIM, N_ELSEWHERE, LEFT_OUT = 4, 4000, 30

ALONE = np.arange(N_ELSEWHERE)


@dataclass(frozen=True)
class Cell:
    """Rows of one law: the share of variance that groups share, and noise against the spread."""

    told: str
    icc: float
    noise: float
    n_groups: int
    rows_each: int = 10
    share: float = 0.3


CELLS = (
    Cell("300 rows alone, noise .7", 0.0, 0.7, 300, rows_each=1),
    Cell("30 groups of 10, ICC .5, noise .7", 0.5, 0.7, 30),
    Cell("30 groups of 10, ICC .5, noise .1", 0.5, 0.1, 30),
    Cell("8 groups of 10, ICC .5, noise .3", 0.5, 0.3, 8, share=0.5),
)


@dataclass(frozen=True, eq=False)
class Trial:
    """Values, ends in range and plain ends by measure, and the values elsewhere where fitted."""

    values: np.ndarray
    ends: np.ndarray
    plain: np.ndarray
    elsewhere: np.ndarray


def draw(groups: np.ndarray, icc: float, rng: np.random.Generator) -> np.ndarray:
    """Rows of which a share of the variance is that of their group."""
    shared = rng.standard_normal((groups.max() + 1, DIM))[groups]
    return np.sqrt(icc) * shared + np.sqrt(1 - icc) * rng.standard_normal((groups.size, DIM))


def judged(cell: Cell, seed: int) -> dict[str, Trial]:
    """Judge one draw in-sample and held-out."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, DIM)))[0]
    groups = np.repeat(np.arange(cell.n_groups), cell.rows_each)
    x = draw(groups, cell.icc, rng)
    y = x @ turn + cell.noise * draw(groups, cell.icc, rng)
    split = held_out_split(groups, cell.share, seed)
    other_x = draw(ALONE, cell.icc, rng)
    other_y = other_x @ turn + cell.noise * draw(ALONE, cell.icc, rng)
    (other,) = pair_moments(ArrayRows(other_x), ArrayRows(other_y))
    sides = ArrayRows(x), ArrayRows(y)
    parts = pair_moments(*sides, part_of_row=split.part_of_row, n_parts=split.n_parts)
    rows = JudgedRows(*sides, parts, split, groups, np.arange(groups.size), is_ordered=False)
    fit = FittingMoments.of(parts[0])
    found: dict[str, list[SplitValues]] = {}
    for reads in dict.fromkeys(measure.reads for measure in MEASURES):
        chosen = [measure for measure in MEASURES if measure.reads == reads]
        judge = MeasureJudge(chosen, reads, rows, seed=seed, memory_bytes=2**28)
        for values in (judge.in_sample(LEFT_OUT), judge.held_out(LEFT_OUT)):
            found.setdefault(values.split, []).append(values)
    elsewhere = np.array(
        [measure.value(Evidence(fit, other)) if measure.fits else np.nan for measure in MEASURES]
    )
    return {split: together(several, elsewhere) for split, several in found.items()}


def together(several: list[SplitValues], elsewhere: np.ndarray) -> Trial:
    """Return what was judged of all measures, those that read the same behind each other."""
    ends, plain = [], []
    measures = iter(MEASURES)
    for values in several:
        assert values.left_out is not None
        for number in range(values.values.size):
            within = next(measures).range_in(values.split)
            ends.append(interval(values.left_out, number, within))
            plain.append(interval(values.left_out, number, ANYWHERE))
    of_split = elsewhere if several[0].split == "held-out" else np.full(len(MEASURES), np.nan)
    found = np.concatenate([values.values for values in several])
    return Trial(found, np.array(ends), np.array(plain), of_split)


def interval(left_out: LeftOut, number: int, within: Range) -> tuple[float, float]:
    """Return the ends of the interval of one measure."""
    found = left_out.interval(lambda means: means[..., number], within=within)
    return found.low, found.high


def table(cell: Cell, trials: int) -> None:
    """Print a line for each measure and split."""
    found = [judged(cell, seed) for seed in range(trials)]
    for split in found[0]:
        several = [each[split] for each in found]
        values = np.stack([each.values for each in several])
        elsewhere = np.stack([each.elsewhere for each in several])
        wanted = np.where(np.isnan(elsewhere), values.mean(axis=0), elsewhere)
        ends, plain = (
            np.stack([getattr(each, name) for each in several]) for name in ("ends", "plain")
        )
        for number, measure in enumerate(MEASURES):
            cells = [values[:, number].mean(), held(ends, wanted, number)]
            cells += [held(plain, wanted, number), outside(plain, measure, split, number)]
            assert outside(ends, measure, split, number) == 0
            told = " | ".join(f"{value:.3f}" for value in cells)
            print(f"| {cell.told} | `{measure.name}` | {split} | {told} |", flush=True)


def held(ends: np.ndarray, wanted: np.ndarray, number: int) -> float:
    """Return the share of trials whose interval holds what it claims."""
    low, high = ends[:, number, 0], ends[:, number, 1]
    return float(np.mean((low <= wanted[:, number]) & (wanted[:, number] <= high)))


def outside(ends: np.ndarray, measure: Measure, split: str, number: int) -> float:
    """Return the share of trials whose interval leaves the range."""
    within = measure.range_in(split)
    return float(np.mean((ends[:, number, 0] < within.low) | (ends[:, number, 1] > within.high)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=400)
    given = parser.parse_args()
    inside = binomtest(round(0.95 * given.trials), given.trials).proportion_ci(0.99, "exact")
    print(f"{given.trials} trials; 99 % binomial interval of .95: {inside.low:.3f} to", end=" ")
    print(f"{inside.high:.3f}\n")
    print("| rows | measure | split | mean value | holds | plain holds | plain leaves range |")
    print("|---|---|---|---|---|---|---|")
    for cell in CELLS:
        table(cell, given.trials)


if __name__ == "__main__":
    main()
