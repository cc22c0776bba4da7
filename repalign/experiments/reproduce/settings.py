"""How much of an experiment is run, and by how many."""

from dataclasses import dataclass

from repalign.experiments.reproduce.experiment import PresetName
from repalign.options import Settings, option


@dataclass(frozen=True)
class ReproduceSettings(Settings):
    """Size, seeds and processes of a run.

    Attributes:
        preset: Size of the experiment.
        n_seeds: How many seeds, from 0 on; None: those of the preset.
        workers: Processes that share cases and seeds.
    """

    preset: PresetName = option(
        "small", "small takes minutes on two cores; paper has the paper's sizes."
    )
    n_seeds: int | None = option(
        None,
        "How many seeds, from 0 on; more of them later compute only what is new.",
        flag="seeds",
        least=1,
        absent="those of the preset",
    )
    workers: int | None = option(
        None,
        "Processes that share cases and seeds, one thread each.",
        least=1,
        absent="1; with --engine ray all processors of the cluster",
    )
