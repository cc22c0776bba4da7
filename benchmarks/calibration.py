"""How often unrelated rows are called related, and how often intervals hold what they claim.

    python -m benchmarks.calibration --trials 400 > calibration.md

Rows are Gaussian, alone or in groups that share a part of their variance (intraclass correlation),
of equal or of very unequal sizes. Source and target are unrelated for the false positives at .05
(19 shuffles of whole groups), and a rotation with noise apart for the coverage of 95 % intervals.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binomtest

from repalign.core.inference.arrangements import plan_shuffles
from repalign.core.inference.kept_rows import JudgedMap
from repalign.core.inference.left_out import InSample, leave_groups_out, refit_without_groups
from repalign.core.inference.nulls import shuffled_pairing_null
from repalign.core.inference.splits import fold_split, held_out_split
from repalign.core.maps.fitting import fit_map
from repalign.core.moments import PairMoments, pair_moments
from repalign.core.rows import ArrayRows
from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings

MAPS = ("permutation", "rigid", "linear")
DIM = 4
# As many rows as the held-out error of a fitted map is known by: its law, not a sample of it.
N_ELSEWHERE = 40


@dataclass(frozen=True)
class Rows:
    """A law of rows: sizes of the groups, and what they share."""

    name: str
    sizes: Sequence[int]
    icc: float


@dataclass(frozen=True)
class TwinRows:
    """The rows of a Gaussian pair, and how many columns it has."""

    rows: Rows
    dim: int


def laws(n: int) -> list[Rows]:
    """Return the laws that are simulated for about so many rows."""
    found = [Rows("independent", [1] * n, 0.0)]
    unequal = np.maximum(1, n / 3 / np.arange(1, n // 10 + 1)).astype(int).tolist()
    for icc in (0.2, 0.8):
        found.append(Rows(f"groups of 10, ICC {icc}", [10] * (n // 10), icc))
        found.append(Rows(f"unequal groups, ICC {icc}", unequal, icc))
    return found


def draw(rows: Rows, rng: np.random.Generator, dim: int = DIM) -> tuple[np.ndarray, np.ndarray]:
    """Return one representation and its groups."""
    groups = np.repeat(np.arange(len(rows.sizes)), rows.sizes)
    shared = rng.standard_normal((len(rows.sizes), dim))[groups]
    own = rng.standard_normal((groups.size, dim))
    return np.sqrt(rows.icc) * shared + np.sqrt(1 - rows.icc) * own, groups


def fit_all(moments: PairMoments, _: int | None) -> list[JudgedMap]:
    """Fit the maps of the tables."""
    return [JudgedMap(fit_map(name, moments)) for name in MAPS]


def false_positives(rows: Rows, trials: int, *, folds: bool) -> np.ndarray:
    """Return the share of p ≤ .05 by split (in-sample, held-out) and map."""
    counts = np.zeros((2, len(MAPS)))
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        (x, groups), (y, _) = draw(rows, rng), draw(rows, rng)
        split = fold_split(groups, 5, trial) if folds else held_out_split(groups, 0.2, trial)
        plan = plan_shuffles(groups, split, seed=trial)
        found = shuffled_pairing_null(x, y, plan, fit_all=fit_all, n_shuffles=19, seed=trial)
        for number, null in enumerate(found):
            assert null is not None
            counts[number] += null.p_values() <= 0.05
    return counts / trials


def coverage(rows: Rows, trials: int) -> np.ndarray:
    """Return the share of intervals that hold what they claim, by split and map.

    Refused intervals (one group with most of the rows) are left out.
    """
    found = [_intervals(rows, seed) for seed in range(trials)]
    expected = np.mean([trial[0] for trial in found], axis=0)
    inside = np.array([_holds(trial[1], expected) for trial in found])
    outside = np.array([_holds(trial[2], trial[3]) for trial in found])
    return np.array([np.nanmean(inside, axis=0), np.nanmean(outside, axis=0)])


def _holds(ends: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return 1 or 0 by map, NaN where there is no interval."""
    holds = (ends[:, 0] <= value) & (value <= ends[:, 1])
    return np.where(np.isnan(ends[:, 0]), np.nan, holds)


def _intervals(rows: Rows, seed: int) -> tuple[np.ndarray, ...]:
    """Return in-sample errors, both kinds of intervals, and the held-out errors' true values."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, DIM)))[0]
    x, groups = draw(rows, rng)
    y = x @ turn + draw(rows, rng)[0]
    (moments,) = pair_moments(ArrayRows(x), ArrayRows(y))
    errors = np.stack([judged.errors(x, y) for judged in fit_all(moments, None)])
    fitted = InSample(ArrayRows(x), ArrayRows(y), moments, errors, groups)
    inside = refit_without_groups(fitted, fit_all, seed=seed)
    split = held_out_split(groups, 0.2, seed)
    parts = split.fitting_rows(1), split.judged_rows(1)
    (fitting,) = pair_moments(ArrayRows(x[parts[0]]), ArrayRows(y[parts[0]]))
    maps = fit_all(fitting, None)
    judged = np.stack([each.errors(x[parts[1]], y[parts[1]]) for each in maps])
    outside = leave_groups_out(judged, groups[parts[1]])
    far = np.random.default_rng(10**6 + seed)
    new = Rows("new", [1] * (N_ELSEWHERE * 100), rows.icc)
    other = draw(new, far)[0]
    wanted = other @ turn + draw(new, far)[0]
    truth = np.array([each.mean_error(other, wanted) for each in maps])
    ends = [
        np.array(
            [
                (found.low, found.high)
                for number in range(len(MAPS))
                for found in [
                    left_out.interval(lambda means, i=number: means[..., i], is_positive=is_held)
                ]
            ]
        )
        for left_out, is_held in ((inside, False), (outside, True))
    ]
    return errors.mean(axis=1), *ends, truth


def twin_ranks(law: TwinRows, ica_rows: str, trials: int, *, n_twins: int = 4) -> tuple[int, int]:
    """Count the Gaussian pairs whose efficiency is above, and below, all of their twins'.

    The efficiency is that of the errors, since ``compare`` gives none where nothing is
    identifiable, as here.
    """
    settings = CompareSettings(
        maps=("permutation", "rigid", "ica"), held_out=0.0, n_null=0, n_refits=0,
        n_gaussian=n_twins, starts=1, ica_rows=ica_rows,  # type: ignore[arg-type]
    )  # fmt: skip
    dim = law.dim
    turn = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0]
    above = below = 0
    for trial in range(trials):
        # far apart, so that no trial shares draws with another
        seed = 1000 * trial
        rng = np.random.default_rng(seed)
        x, groups = draw(law.rows, rng, dim)
        y = x @ turn + 0.1 * rng.standard_normal(x.shape)
        result = compare(x, y, groups=groups, settings=replace(settings, seed=seed))
        permutation, rigid, ica = (record.error for record in result.records)
        observed = (permutation - ica) / (permutation - rigid)
        twins = result.pairs[0].gaussian_efficiencies["in-sample"]
        above += observed > max(twins)
        below += observed < min(twins)
    return above, below


def _twin_table(trials: int) -> None:
    low, high = binomtest(trials // 5, trials).proportion_ci(0.99)
    print(f"\n{trials} pairs a cell, 4 twins each; expected .200 ({low:.3f} to {high:.3f}).\n")
    print("| rows, columns | ICA on | above all twins | below all twins |\n|---|---|---|---|")
    unequal = np.maximum(1, 400 / 3 / np.arange(1, 40)).astype(int).tolist()
    for law in (
        *(TwinRows(Rows("independent", [1] * 400, 0.0), dim) for dim in (40, 20, 6)),
        TwinRows(Rows("groups of 10, ICC .5", [10] * 40, 0.5), 6),
        TwinRows(Rows("unequal groups, ICC .5", unequal, 0.5), 6),
    ):
        for kind in ("disjoint", "same"):
            above, below = twin_ranks(law, kind, trials)
            cells = f"{above / trials:.3f} | {below / trials:.3f}"
            name = f"{sum(law.rows.sizes)} × {law.dim}, {law.rows.name}"
            print(f"| {name} | {kind} rows | {cells} |", flush=True)


def _cells(shares: np.ndarray) -> str:
    return " / ".join(f"{share:.3f}" for share in shares)


def main() -> None:
    """Write the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--rows", type=int, nargs="+", default=[300])
    parser.add_argument("--twins", type=int, help="only count this many Gaussian pairs a cell")
    given = parser.parse_args()
    if given.twins:
        _twin_table(given.twins)
        return
    trials = given.trials
    low, high = binomtest(round(0.05 * trials), trials).proportion_ci(0.99)
    print(
        f"{trials} trials a cell; the 99 % binomial interval of .05 is {low:.3f} to {high:.3f}.\n"
    )
    print("| n, rows | split | false positives in-sample | held-out |\n|---|---|---|---|")
    for n in given.rows:
        for rows in laws(n):
            for folds in (False, True):
                inside, outside = false_positives(rows, trials, folds=folds)
                kind = "five folds" if folds else "one fifth held out"
                cells = f"{_cells(inside)} | {_cells(outside)}"
                print(f"| {sum(rows.sizes)}, {rows.name} | {kind} | {cells} |", flush=True)
    print(
        "\n| n, rows | in-sample, of the procedure | held-out, of the fitted map |\n|---|---|---|"
    )
    for n in given.rows:
        for rows in laws(n):
            inside, outside = coverage(rows, trials)
            cells = f"{_cells(inside)} | {_cells(outside)}"
            print(f"| {sum(rows.sizes)}, {rows.name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
