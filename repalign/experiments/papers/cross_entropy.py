"""Does cross-entropy classification invert the data generating process? Reizinger et al. 2025."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from repalign.experiments.reproduce.drawing import dot_plot
from repalign.experiments.reproduce.experiment import (
    Case,
    Experiment,
    Measured,
    Preset,
    Published,
    Work,
)
from repalign.simulation.clusters import ClusterEncoder, Clusters, train_classifier
from repalign.simulation.fitting import Budget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repalign.experiments.reproduce.results import Reproduction

R2, R2_UNIFORM, R2_MIXTURE = "R²", "R² uniform", "R² mixture"
EXCESS = "excess loss"
CONVERGED = 0.05
THEOREM = "1 (theorem)"


SHALLOW = ClusterEncoder(3, (10, 50, 50, 10))


@dataclass(frozen=True)
class ClusterCase(Case):
    """Clusters, how they are seen and encoded, and how long is trained."""

    clusters: Clusters
    budget: Budget
    encoding: ClusterEncoder = SHALLOW


def measure(case: Case, seed: int, work: Work) -> Sequence[Measured]:
    """Train one classifier; judge its features, the raw mixture and untrained features."""
    from repalign.core.factors.recovery import linear_r2_held_out

    assert isinstance(case, ClusterCase)
    found = train_classifier(
        case.clusters, case.encoding, case.budget, seed=seed, device=work.machine.device
    )
    rows = {
        R2: (found.drawn, found.drawn.trained),
        R2_UNIFORM: (found.uniform, found.uniform.trained),
        R2_MIXTURE: (found.uniform, found.uniform.observed),
        "R² untrained": (found.uniform, found.uniform.untrained),
    }
    return [
        *(
            Measured(name, float(linear_r2_held_out(of.latents, values).value or 0))
            for name, (of, values) in rows.items()
        ),
        Measured(EXCESS, found.excess_loss),
    ]


MAIN = "100 classes"
FEW = ("4 classes", "10 classes")
FRESH = "1000 instances, fresh views"


def cases(dim: int, budget: Budget, fewer: Budget, longer: Budget) -> tuple[ClusterCase, ...]:
    """Return clusters that differ in one thing each from 100 classes with κ = 10."""
    return (
        ClusterCase(MAIN, Clusters(dim, 100, 10.0), budget),
        *(ClusterCase(name, Clusters(dim, int(name.split()[0]), 10.0), fewer) for name in FEW),
        ClusterCase("100 classes, κ = 20", Clusters(dim, 100, 20.0), budget),
        ClusterCase("100 classes, 3 latents", Clusters(3, 100, 10.0), budget),
        ClusterCase(FRESH, Clusters(dim, 1000, 10.0), longer),
    )


def sentences(result: "Reproduction") -> Sequence[str]:
    """Say whether the theorem holds, and where too few classes or training are the limit."""
    main = result.find(MAIN, R2_UNIFORM)
    few, more = (
        f"{name} recover them with R² {result.find(name, R2_UNIFORM).mean:.2f} at an excess loss "
        f"of {result.find(name, EXCESS).mean:.3f}"
        for name in FEW
    )
    slow = [
        each.case for each in result.results() if each.measure == EXCESS and each.mean > CONVERGED
    ]
    limit = f"Not converged (excess loss above {CONVERGED}): {'; '.join(slow)}." if slow else ""
    return [
        f"100 classes recover uniform latents with R² {main.mean:.3f} (lowest seed "
        f"{min(main.values):.3f}); the raw mixture has "
        f"{result.find(MAIN, R2_MIXTURE).mean:.2f}.",
        f"{few}: too few classes rather than too little training. {more}.",
        f"Instance discrimination with fresh views of 1000 instances: R² "
        f"{result.find(FRESH, R2_UNIFORM).mean:.3f}.",
        *([limit] if limit else []),
    ]


def plot(result: "Reproduction") -> "Figure":
    """Draw R² of the features and of the raw mixture."""
    return dot_plot(
        result, (R2, R2_UNIFORM, R2_MIXTURE), label="1 = latents recovered", limits=(0, 1.02)
    )


def paper_cases() -> tuple[ClusterCase, ...]:
    """Return the sizes of the authors' code, and its other classes, concentrations, dimensions."""
    budget = Budget(50_000 * 10, 1024, 1e-3, is_constant=True)
    others = {
        "1000 classes": Clusters(10, 1000, 10.0),
        "10000 classes": Clusters(10, 10_000, 10.0),
        "100 classes, κ = 5": Clusters(10, 100, 5.0),
        "100 classes, κ = 50": Clusters(10, 100, 50.0),
        "100 classes, 5 latents": Clusters(5, 100, 10.0),
        "100 classes, 20 latents": Clusters(20, 100, 10.0),
    }
    alike = (
        *cases(10, budget, budget, budget),
        *(ClusterCase(name, clusters, budget) for name, clusters in others.items()),
    )
    deep = ClusterEncoder(4, (10, 50, 50, 50, 50, 10))
    return tuple(replace(case, encoding=deep) for case in alike)


SMALL = cases(5, *(Budget(n_steps, 512, 1e-2) for n_steps in (1000, 750, 1300)))

EXPERIMENT = Experiment(
    name="cross-entropy",
    paper="Reizinger et al. 2025, arXiv 2410.21869",
    shows="classification of von Mises-Fisher clusters recovers the latents linearly",
    needs="nothing",
    differs=(
        "5 latents; batches of 512 for 1,000 steps (few classes 750, instances 1,300) with a "
        "learning rate that rises and falls, where the authors' code has batches of 1,024, deeper "
        "networks and up to 500,000 steps; the paper's tables were not at hand, so that what the "
        "theorem says (for enough classes of enough variety) stands next to our numbers. Features "
        "are not normalised; instances are seen in fresh views, where the authors' are fixed rows."
    ),
    presets={
        "small": Preset(SMALL, n_seeds=3, seconds_per_seed=30),
        "paper": Preset(paper_cases(), n_seeds=5, seconds_per_seed=640_000, is_estimate=True),
    },
    measure=measure,
    sentences=sentences,
    plot=plot,
    published=(Published(MAIN, R2_UNIFORM, THEOREM), Published(FRESH, R2_UNIFORM, THEOREM)),
)
