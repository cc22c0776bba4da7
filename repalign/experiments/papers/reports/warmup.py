"""What ``warmup`` says and draws: runs that converged, the theory's curve through them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray
from repalign.experiments.reproduce.drawing import GREEN
from repalign.experiments.reproduce.results import Reproduction
from repalign.figures.style import BLUE, GREY, ORANGE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ERROR, UNTRAINED = "rigid error", "error untrained"
SIZE, TERM = "K", "√(K² − 1)"
LARGEST, EXACT = "largest √(K² − 1)", "exact √(K² − 1)"
RECONSTRUCTION, SPREAD = "reconstruction", "quantile of K"
SHOWN = (ERROR, UNTRAINED, SIZE, TERM, EXACT, LARGEST, RECONSTRUCTION)
LEAKS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.05)
# Of the filter.
REFERENCE, SHARE = 0.2, 0.95
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def pooled(leak: float) -> str:
    """Return the name of the case of all digits."""
    return f"leak {leak:g}"


def by_digit(leak: float) -> str:
    """Return the name of the case of a pair a digit."""
    return f"leak {leak:g}, a pair a digit"


@dataclass(frozen=True, eq=False)
class Runs:
    """Pairs of all leaks, those that converged badly told apart.

    A pair is dropped if one of its reconstruction errors exceeds the 95th percentile of those at
    the reference leak.
    """

    leak: FloatArray
    error: FloatArray
    term: FloatArray
    largest: FloatArray
    exact: FloatArray
    reconstruction: FloatArray

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Tell of every pair whether it is kept."""
        at_reference = self.reconstruction[self.leak == REFERENCE]
        return np.asarray(self.reconstruction <= np.quantile(at_reference, SHARE))

    def curve(self, term: FloatArray) -> "Curve":
        """Fit error = a · term to the pairs that are kept and have a term."""
        chosen = self.kept & np.isfinite(term)
        x, y = term[chosen], self.error[chosen]
        slope = float(x @ y / (x @ x))
        left = float(((y - slope * x) ** 2).sum() / ((y - y.mean()) ** 2).sum())
        return Curve(slope, 1 - left)


@dataclass(frozen=True)
class Curve:
    """error = slope · √(K² − 1), and the share of the variance of errors that it explains."""

    slope: float
    r2: float


def pooled_runs(result: Reproduction) -> Runs:
    """Return a run for every leak and seed."""
    names = (ERROR, TERM, LARGEST, EXACT, RECONSTRUCTION)
    columns = {
        name: np.concatenate([result.find(pooled(leak), name).values for leak in LEAKS])
        for name in names
    }
    n_seeds = len(result.seeds)
    return Runs(
        np.repeat(LEAKS, n_seeds),
        columns[ERROR],
        columns[TERM],
        columns[LARGEST],
        columns[EXACT],
        columns[RECONSTRUCTION],
    )


def digit_runs(result: Reproduction) -> Runs:
    """Return a run for every leak, digit and seed; the largest and exact terms are not kept."""
    curves = {
        name: [result.curve(by_digit(leak), name) for leak in LEAKS]
        for name in (ERROR, TERM, RECONSTRUCTION)
    }
    columns = {
        name: np.array([value for curve in found for point in curve for value in point.values])
        for name, found in curves.items()
    }
    nothing = np.full(columns[ERROR].size, np.nan)
    leak = np.repeat(LEAKS, columns[ERROR].size // len(LEAKS))
    return Runs(leak, columns[ERROR], columns[TERM], nothing, nothing, columns[RECONSTRUCTION])


def sentences(result: Reproduction) -> Sequence[str]:
    """Say whether the error follows the term, for all digits and by digit."""
    isometry = result.find(pooled(LEAKS[0]), ERROR)
    worst = max((result.find(pooled(leak), ERROR) for leak in LEAKS), key=lambda each: each.mean)
    lines = [
        f"An isometry (leak 1) is identified up to a rigid error of {isometry.mean:.3f} of the "
        f"diameter, {worst.case} up to {worst.mean:.3f}; untrained pairs have "
        f"{result.find(worst.case, UNTRAINED).mean:.3f}.",
    ]
    for what, runs in (("all digits", pooled_runs(result)), ("by digit", digit_runs(result))):
        lines.append(f"{what.capitalize()}: {_told(runs)}")
    exact = pooled_runs(result)
    curve = exact.curve(exact.exact)
    lines.append(
        f"With all directions instead of 10 random ones: a = {curve.slope:.3f}, R² "
        f"{curve.r2:.2f}, rank correlation {_rank_correlation(exact, exact.exact):.2f}."
    )
    converged = _rank_correlation(exact, exact.reconstruction)
    lines.append(
        f"The rank correlation of rigid error and reconstruction error is {converged:.2f}: the "
        "leak changes both, so that these pairs do not tell a decoder that is not an isometry from "
        "one that did not converge."
    )
    return lines


def _told(runs: Runs) -> str:
    curve, dropped = runs.curve(runs.term), int((~runs.kept).sum())
    return (
        f"{dropped} of {runs.error.size} pairs are dropped by the filter (paper: "
        f"{'11 of 60' if np.isfinite(runs.exact).any() else '5 of 180'}); the curve error = "
        f"a √(K² − 1) through the others has a = {curve.slope:.3f} and explains "
        f"{curve.r2:.2f} of their variance (R²), rank correlation of error and term "
        f"{_rank_correlation(runs, runs.term):.2f}."
    )


def _rank_correlation(runs: Runs, term: FloatArray) -> float:
    from scipy.stats import spearmanr

    chosen = runs.kept & np.isfinite(term)
    return float(spearmanr(runs.error[chosen], term[chosen]).statistic)


def plot(result: Reproduction) -> "Figure":
    """Draw figures 2 and A.3 to A.6 of the paper, and the first with all directions."""
    figure = new_figure(10.0, 6.2)
    panels = figure.subplots(2, 3)
    runs, own = pooled_runs(result), digit_runs(result)
    _scatter(panels[0, 0], runs, runs.term, "mean √(K² − 1), 10 directions", "as figure 2")
    _scatter(panels[0, 1], runs, runs.exact, "mean √(K² − 1), all directions", "exact K")
    _scatter(panels[0, 2], runs, runs.largest, "largest √(K² − 1), 10 directions", "as A.4")
    _draw_spread(panels[1, 0], result)
    _draw_reconstruction(panels[1, 1], runs)
    _scatter(panels[1, 2], own, own.term, "mean √(K² − 1), 10 directions", "by digit, as A.6")
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def _scatter(panel: "Axes", runs: Runs, term: FloatArray, label: str, title: str) -> None:
    kept, finite = runs.kept, np.isfinite(term)
    places = panel.scatter(
        term[kept & finite], runs.error[kept & finite], c=runs.leak[kept & finite],
        cmap="viridis", s=12, vmin=0, vmax=1,
    )  # fmt: skip
    panel.plot(term[~kept & finite], runs.error[~kept & finite], "x", color=GREY, markersize=4)
    reach = np.linspace(0, float(term[finite].max()), 20)
    curve = runs.curve(term)
    panel.plot(reach, curve.slope * reach, color=ORANGE, label=f"{curve.slope:.2g} · √(K² − 1)")
    panel.set_xlabel(label)
    panel.set_ylabel("rigid error / diameter")
    panel.set_ylim(0)
    panel.set_title(title, fontsize="medium")
    panel.legend(frameon=False, fontsize="small", loc="lower right")
    assert panel.figure is not None
    panel.figure.colorbar(places, ax=panel, label="leak")


def _draw_spread(panel: "Axes", result: Reproduction) -> None:
    """Draw the middle half and nine tenths of K over samples, means over seeds."""
    for number, leak in enumerate(LEAKS):
        low, first, middle, third, high = (
            point.mean for point in result.curve(pooled(leak), SPREAD)
        )
        panel.vlines(number, low, high, color=GREY)
        panel.vlines(number, first, third, color=BLUE, linewidth=6)
        panel.plot([number], [middle], "o", color=ORANGE, markersize=4)
    panel.set_xticks(range(len(LEAKS)), [f"{leak:g}" for leak in LEAKS])
    panel.set_xlabel("leak")
    panel.set_ylabel("K at samples, 10 directions")
    panel.set_title("as A.3 (5, 25, 50, 75, 95 %)", fontsize="medium")


def _draw_reconstruction(panel: "Axes", runs: Runs) -> None:
    kept = runs.kept
    panel.plot(runs.leak[kept], runs.reconstruction[kept], "o", color=GREEN, markersize=4)
    panel.plot(runs.leak[~kept], runs.reconstruction[~kept], "x", color=GREY, markersize=4)
    panel.set_xlabel("leak")
    panel.set_ylabel("reconstruction error / variance")
    panel.set_ylim(0)
    panel.set_title("as A.5 (× dropped)", fontsize="medium")
