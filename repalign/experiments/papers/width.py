"""Do two trainings of wider networks agree more? Roeder et al. 2021, section 5.2."""

from collections.abc import Sequence

from repalign.experiments.papers.patch_coding import PatchCase, experiment
from repalign.simulation.fitting import Budget
from repalign.simulation.patches import PatchCoder


def _cases(widths: Sequence[int], dim: int, budget: Budget) -> tuple[PatchCase, ...]:
    return tuple(PatchCase(f"{width} units", PatchCoder(width, dim), budget) for width in widths)


SMALL = _cases((16, 32, 64, 128), 8, Budget(1500, 256, 3e-3))
PAPER = _cases((64, 128, 256, 512, 1024, 2048, 4096, 8192), 64, Budget(100_000, 256, 1e-3))

EXPERIMENT = experiment(
    "width", "width of the networks", "number of hidden units", SMALL, PAPER, seconds=1_000_000
)
