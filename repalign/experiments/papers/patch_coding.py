"""How alike two trainings on image patches are: what ``data-size`` and ``width`` measure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from repalign.experiments.digit_images import find_digits, load_digits
from repalign.experiments.reproduce.drawing import COLOURS, draw_curve
from repalign.experiments.reproduce.experiment import Case, Experiment, Measured, Preset, Work
from repalign.experiments.reproduce.given_data import GivenData
from repalign.figures.style import new_figure
from repalign.printable import for_figure
from repalign.simulation.fitting import Budget
from repalign.simulation.patches import PatchCoder, PatchPairs, patch_side, train_patches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repalign.experiments.reproduce.results import Reproduction

TOP, BOTTOM = "mean CCA, top", "mean CCA, bottom"
UNTRAINED, UNRELATED, LOSS = "untrained", "unrelated rows", "loss"
SHOWN = (TOP, BOTTOM, UNTRAINED, UNRELATED, LOSS)
# The last fifth of the images is judged, so many patches in all.
N_JUDGED = 4000
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)

_DIFFERS = (
    "scikit-learn's digits for CIFAR-10 (which --data takes), patches of 3/7 "
    "of the height, codes of 8 for 64, optimiser and steps are ours. The paper gives values in a "
    "figure only, so that no number stands next to ours. Images are judged that no training saw."
)


@dataclass(frozen=True)
class PatchCase(Case):
    """How much two trainings get; they see the same images from other starts.

    Attributes:
        coder: The networks.
        budget: How long they are trained.
        n_images: Images to train on; None for all that are not judged.
    """

    coder: PatchCoder
    budget: Budget
    n_images: int | None = None


def find_images(path: Path | None) -> GivenData:
    """Tell which images these are, and that they can be cut.

    Raises:
        InputError: They cannot be read, or are too small.
    """
    found = find_digits(path)
    patch_side(*load_digits(found).images.shape[1:3])
    return found


def measure(case: Case, seed: int, work: Work) -> Sequence[Measured]:
    """Train a pair and compare what both say of the same patches of images that neither saw."""
    assert isinstance(case, PatchCase)
    images = load_digits(work.data).images
    order = np.random.default_rng([seed, 2]).permutation(len(images))
    n_judged = len(images) // 5
    judged, training = order[:n_judged], order[n_judged:][: case.n_images]
    rng = np.random.default_rng([seed, 3])
    patches = PatchPairs.draw(images, np.resize(judged, N_JUDGED), rng)
    at = tuple(round(share * case.budget.n_steps) for share in _SHARES)
    first, second = (
        train_patches(images[training], patches, case.coder, case.budget, seed=own, at=at)
        for own in (2 * seed, 2 * seed + 1)
    )
    found, last = [], at[-1]
    for number, name in enumerate((TOP, BOTTOM)):
        course = [mean_cca(first.codes[step][number], second.codes[step][number]) for step in at]
        found += [Measured(name, course[-1])]
        found += [Measured(name, value, at=step) for step, value in zip(at, course, strict=True)]
    apart = np.roll(second.codes[last][0], N_JUDGED // 2 + 1, axis=0)
    return [
        *found,
        Measured(UNTRAINED, mean_cca(first.codes[0][0], second.codes[0][0])),
        Measured(UNRELATED, mean_cca(first.codes[last][0], apart)),
        Measured(LOSS, (first.loss + second.loss) / 2),
    ]


def mean_cca(x: np.ndarray, y: np.ndarray) -> float:
    """Return the mean canonical correlation of two codes of the same patches."""
    from repalign.core.measures import FittingMoments, canonical_correlations
    from repalign.core.moments import pair_moments
    from repalign.core.rows import ArrayRows

    (moments,) = pair_moments(ArrayRows(x), ArrayRows(y))
    return canonical_correlations(FittingMoments.of(moments)).mean


def experiment(
    name: str,
    against: str,
    by: str,
    small: Sequence[PatchCase],
    paper: Sequence[PatchCase],
    seconds: float,
) -> Experiment:
    """Return the experiment that goes through cases in one direction.

    Args:
        name: As ``repalign reproduce`` takes it.
        against: What the list says that it is measured against.
        by: What rises from case to case, as the result tells it.
        small: Cases of the small preset.
        paper: Cases of the paper's sizes.
        seconds: Estimated processor seconds of these for a seed.
    """
    return Experiment(
        name=name,
        paper="Roeder et al. 2021, section 5.2",
        shows=f"mean CCA of two contrastive codings of image patches against the {against}",
        needs="nothing; --data DIR takes CIFAR-10's binary files, or MNIST's format",
        differs=_DIFFERS,
        presets={
            "small": Preset(tuple(small), n_seeds=5, seconds_per_seed=13),
            "paper": Preset(tuple(paper), n_seeds=5, seconds_per_seed=seconds, is_estimate=True),
        },
        measure=measure,
        sentences=partial(trend, by=by),
        plot=plot,
        shown=SHOWN,
        find_data=find_images,
        fetches=("CIFAR10", "FashionMNIST", "MNIST"),
    )


def trend(result: "Reproduction", by: str) -> Sequence[str]:
    """Say whether the similarity rises from the first case to the last, over seeds."""
    lines = []
    cases = result.cases
    for name in (TOP, BOTTOM):
        means = [result.find(case, name).mean for case in cases]
        ends = [result.find(case, name) for case in (cases[0], cases[-1])]
        apart = ends[0].high < ends[1].low
        rises = all(earlier <= later for earlier, later in pairwise(means))
        does = "rises" if rises else "does not rise"
        meet = "do not overlap" if apart else "overlap"
        shown = ", ".join(f"{mean:.3f}" for mean in means)
        lines.append(
            f"{name} by {by}: {shown}; it {does} at every step, and the intervals of the first "
            f"and the last {meet}."
        )
    return lines


def plot(result: "Reproduction") -> "Figure":
    """Draw the similarity by case, and over training."""
    figure = new_figure(8.4, 3.6)
    ends, course = figure.subplots(1, 2, sharey=True)
    cases = result.cases
    for name, colour in zip((TOP, BOTTOM), COLOURS, strict=False):
        found = [result.find(case, name) for case in cases]
        for place, each in enumerate(found):
            ends.plot([place] * len(each.values), each.values, "o", color=colour, alpha=0.35, ms=3)
            if each.low == each.low:
                ends.vlines(place, each.low, each.high, color=colour)
        ends.plot(range(len(cases)), [each.mean for each in found], "o-", color=colour, label=name)
    for name, style in ((UNTRAINED, "--"), (UNRELATED, ":")):
        level = [result.find(case, name).mean for case in cases]
        ends.plot(range(len(cases)), level, style, color="grey", label=name)
    ends.set_xticks(range(len(cases)), [for_figure(case) for case in cases])
    for case, colour in zip(cases, COLOURS, strict=False):
        draw_curve(course, result.curve(case, TOP), colour=colour, label=case)
    course.set_xlabel("training step, top patches")
    ends.set_ylabel("mean CCA of two trainings")
    ends.set_ylim(0, 1.02)
    for panel in (ends, course):
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize="small", loc=(0.45, 0.1))
    return figure
