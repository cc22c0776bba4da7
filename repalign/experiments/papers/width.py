"""Do two trainings of wider networks agree more? Roeder et al. 2021, section 5.2."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repalign.experiments.papers import patch_coding
from repalign.experiments.papers.patch_coding import PatchCase
from repalign.experiments.reproduce.experiment import Experiment, Preset
from repalign.simulation.fitting import Budget
from repalign.simulation.patches import PatchCoder

if TYPE_CHECKING:
    from repalign.experiments.reproduce.results import Reproduction


def sentences(result: "Reproduction") -> Sequence[str]:
    """Say whether the similarity rises with the number of hidden units."""
    return patch_coding.trend(result, "number of hidden units")


def _cases(widths: Sequence[int], dim: int, budget: Budget) -> tuple[PatchCase, ...]:
    return tuple(PatchCase(f"{width} units", PatchCoder(width, dim), budget) for width in widths)


SMALL = _cases((16, 32, 64, 128), 8, Budget(1500, 256, 3e-3))
PAPER = _cases((64, 128, 256, 512, 1024, 2048, 4096, 8192), 64, Budget(100_000, 256, 1e-3))

EXPERIMENT = Experiment(
    name="width",
    paper=patch_coding.PAPER,
    shows="mean CCA of two contrastive codings of image patches against the width of the networks",
    needs=patch_coding.NEEDS,
    differs=patch_coding.DIFFERS,
    presets={
        "small": Preset(SMALL, n_seeds=5, seconds_per_seed=13),
        "paper": Preset(PAPER, n_seeds=5, seconds_per_seed=1_000_000, is_estimate=True),
    },
    measure=patch_coding.measure,
    sentences=sentences,
    plot=patch_coding.plot,
    shown=patch_coding.SHOWN,
    find_data=patch_coding.find_images,
)
