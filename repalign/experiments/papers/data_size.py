"""Do two trainings agree more when they see more data? Roeder et al. 2021, section 5.2."""

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
    """Say whether the similarity rises with the number of images."""
    return patch_coding.trend(result, "number of images")


def _cases(sizes: Sequence[int | None], coder: PatchCoder, budget: Budget) -> tuple[PatchCase, ...]:
    return tuple(
        PatchCase("all images" if size is None else f"{size} images", coder, budget, size)
        for size in sizes
    )


SMALL = _cases((50, 200, 800, None), PatchCoder(64, 8), Budget(1500, 256, 3e-3))
PAPER = _cases((500, 2000, 8000, None), PatchCoder(256, 64), Budget(100_000, 256, 1e-3))

EXPERIMENT = Experiment(
    name="data-size",
    paper=patch_coding.PAPER,
    shows="mean CCA of two contrastive codings of image patches against the number of images",
    needs=patch_coding.NEEDS,
    differs=patch_coding.DIFFERS,
    presets={
        "small": Preset(SMALL, n_seeds=5, seconds_per_seed=13),
        "paper": Preset(PAPER, n_seeds=5, seconds_per_seed=16_000, is_estimate=True),
    },
    measure=patch_coding.measure,
    sentences=sentences,
    plot=patch_coding.plot,
    shown=patch_coding.SHOWN,
    find_data=patch_coding.find_images,
)
