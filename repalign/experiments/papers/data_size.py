"""Do two trainings agree more when they see more data? Roeder et al. 2021, section 5.2."""

from collections.abc import Sequence

from repalign.experiments.papers.patch_coding import PatchCase, experiment
from repalign.simulation.fitting import Budget
from repalign.simulation.patches import PatchCoder


def _cases(sizes: Sequence[int | None], coder: PatchCoder, budget: Budget) -> tuple[PatchCase, ...]:
    return tuple(
        PatchCase("all images" if size is None else f"{size} images", coder, budget, size)
        for size in sizes
    )


SMALL = _cases((50, 200, 800, None), PatchCoder(64, 8), Budget(1500, 256, 3e-3))
PAPER = _cases((500, 2000, 8000, None), PatchCoder(256, 64), Budget(100_000, 256, 1e-3))

EXPERIMENT = experiment(
    "data-size", "number of images", "number of images", SMALL, PAPER, seconds=16_000
)
