"""How much ICA efficiency do data show in which ICA has nothing to find?

A Gaussian space and a rotated copy of it with noise: no rotation is better than another for ICA,
so that every efficiency above zero comes from fitting both sides on the same rows. Beside it the
same construction from Laplace sources, where ICA has everything to find.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from repalign.comparison.settings import preset
from repalign.experiments.reproduce.drawing import dot_plot
from repalign.experiments.reproduce.experiment import (
    Case,
    Experiment,
    Measured,
    Preset,
    Published,
    Work,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repalign.experiments.reproduce.results import Reproduction

SAME, DISJOINT = "efficiency, same rows", "efficiency, disjoint rows"
TOLD = "compare prints it"
MAPS = ("permutation", "rigid", "ica")
TABLE_ONE = ".25 to .59"


@dataclass(frozen=True)
class NullCase(Case):
    """A space of independent sources, rotated, and a copy rotated otherwise with noise.

    Attributes:
        sources: Their distribution.
        n_columns: How many.
        n_rows: Rows of both spaces.
        noise: Standard deviation of the noise; the sources have 1.
    """

    sources: Literal["gaussian", "laplace"]
    n_columns: int
    n_rows: int
    noise: float = 0.1


def spaces(case: NullCase, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of both spaces."""
    rng = np.random.default_rng([seed, case.n_columns, case.n_rows])
    shape = (case.n_rows, case.n_columns)
    if case.sources == "gaussian":
        sources = rng.standard_normal(shape)
    else:
        sources = rng.laplace(size=shape) / np.sqrt(2)
    first, second = (
        np.linalg.qr(rng.standard_normal((case.n_columns, case.n_columns)))[0] for _ in range(2)
    )
    return sources @ first, sources @ second + case.noise * rng.standard_normal(shape)


def measure(case: Case, seed: int, work: Work) -> Sequence[Measured]:
    """Compare the two spaces: ICA on the same rows in-sample, on disjoint halves held-out."""
    from repalign.comparison.run import compare
    from repalign.core.row_errors import ica_efficiency

    assert isinstance(case, NullCase)
    source, target = spaces(case, seed)
    settings = preset("quick", maps=MAPS, held_out=0.2, seed=seed)
    result = compare(source, target, settings=settings, machine=work.machine)
    found, is_told = [], False
    for name, split in ((SAME, "in-sample"), (DISJOINT, "held-out")):
        records = {record.map: record for record in result.records if record.split == split}
        # from the errors, since a comparison prints none where ICA has found nothing
        errors = (np.asarray(records[map_name].error) for map_name in MAPS)
        found.append(Measured(name, float(ica_efficiency(*errors))))
        is_told |= records["ica"].efficiency is not None
    return [*found, Measured(TOLD, float(is_told))]


def sentences(result: "Reproduction") -> Sequence[str]:
    """Say how high the floor of the efficiency column is."""
    gaussian = [each for each in result.results() if each.case.startswith("gaussian")]
    same = [each for each in gaussian if each.measure == SAME]
    disjoint = [each for each in gaussian if each.measure == DISJOINT]
    above = sum(each.low > 0 for each in same)
    some = sum(each.low > 0 for each in disjoint)
    planted = [
        each.mean
        for each in result.results()
        if each.case.startswith("laplace") and each.measure == DISJOINT
    ]
    told = sum(
        each.mean > 0
        for each in result.results()
        if each.measure == TOLD and each.case.startswith("gaussian")
    )
    lines = [
        f"Gaussian rows, in which ICA has nothing to find, show an efficiency of {_range(same)} "
        f"where both sides are fitted on the same rows (interval above zero in {above} of "
        f"{len(same)} sizes) and of {_range(disjoint)} on disjoint rows (above zero in {some} of "
        f"{len(disjoint)}). An in-sample efficiency means what it exceeds this by.",
        "`repalign compare` sees that ICA has found no component there and leaves the efficiency "
        f"out: it printed one in {told} of {len(same)} sizes.",
    ]
    if planted:
        lines.append(
            f"Laplace sources, in which ICA has everything to find, show {min(planted):.2f} to "
            f"{max(planted):.2f} on disjoint rows."
        )
    return lines


def _range(summaries: Sequence[object]) -> str:
    means = [each.mean for each in summaries]  # type: ignore[attr-defined]
    return f"{min(means):.3f} to {max(means):.3f}"


def plot(result: "Reproduction") -> "Figure":
    """Draw the efficiencies by size."""
    return dot_plot(result, (SAME, DISJOINT), label="ICA efficiency")


def _cases(
    sizes: Sequence[tuple[int, int]], planted: Sequence[tuple[int, int]]
) -> tuple[NullCase, ...]:
    def case(sources: Literal["gaussian", "laplace"], d: int, n: int) -> NullCase:
        return NullCase(f"{sources}, {d} columns, {n} rows", sources, d, n)

    return (
        *(case("gaussian", d, n) for d, n in sizes),
        *(case("laplace", d, n) for d, n in planted),
    )


SMALL = _cases([(d, n) for d in (16, 32, 64) for n in (1000, 2000, 4000)], [(16, 1000), (64, 4000)])
PAPER = _cases(
    [(384, 10_000), (384, 50_000), (768, 10_000), (768, 50_000)], [(384, 50_000), (768, 50_000)]
)

EXPERIMENT = Experiment(
    name="gaussian-null",
    paper="arXiv 2603.11970, column % efficiency of Table 1",
    shows="ICA efficiency of data without an ICA solution, fitted on the same or disjoint rows",
    needs="nothing",
    differs=(
        "the paper prints no null, and its spaces are wider (768 columns for Pythia-160M); its "
        "column % efficiency is in-sample with both sides on the same rows."
    ),
    presets={
        "small": Preset(SMALL, n_seeds=10, seconds_per_seed=6),
        "paper": Preset(PAPER, n_seeds=5, seconds_per_seed=3600, is_estimate=True),
    },
    measure=measure,
    sentences=sentences,
    plot=plot,
    published=tuple(
        Published(case.name, SAME, TABLE_ONE)
        for case in (*SMALL, *PAPER)
        if case.sources == "gaussian"
    ),
)
