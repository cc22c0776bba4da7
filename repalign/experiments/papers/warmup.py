"""Is an autoencoder identifiable up to a rotation, the more so the nearer it is to an isometry?

Section 4.1 and appendix A.7.1 of the paper: pairs of autoencoders of orthogonal layers, whose
leaky ReLUs say how far the decoder may be from keeping distances.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from repalign.aliases import FloatArray
from repalign.comparison.settings import CompareSettings
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.experiments.digit_images import find_digits, load_digits
from repalign.experiments.papers.reports.warmup import (
    ERROR,
    EXACT,
    LARGEST,
    LEAKS,
    QUANTILES,
    RECONSTRUCTION,
    SHOWN,
    SIZE,
    SPREAD,
    TERM,
    UNTRAINED,
    by_digit,
    plot,
    pooled,
    sentences,
)
from repalign.experiments.reproduce.experiment import Case, Experiment, Measured, Preset, Work
from repalign.simulation.fitting import Budget
from repalign.simulation.orthogonal import (
    OrthogonalAutoencoder,
    OrthogonalRun,
    Patience,
    train_orthogonal,
)
from repalign.simulation.stretch import bilipschitz, term

N_JUDGED = 1000
COMPARE = CompareSettings(
    maps=("rigid",), held_out=0.0, n_null=0, n_rotations=0, n_halves=0, both_directions=True
)


@dataclass(frozen=True)
class WarmupCase(Case):
    """Pairs of autoencoders with one leak.

    Attributes:
        leak: Slope of the leaky ReLU below zero.
        widths: Behind the data, down to the latents.
        budget: Of every autoencoder.
        by_digit: A pair for each digit instead of one for all.
        n_rows: Images; None for all.
        n_columns: Principal directions of the pixels, where there are more; None for the pixels.
        patience: Ends training before the budget.
    """

    leak: float
    widths: tuple[int, ...]
    budget: Budget
    by_digit: bool = False
    n_rows: int | None = None
    n_columns: int | None = None
    patience: Patience | None = None


def measure(case: Case, seed: int, work: Work) -> Sequence[Measured]:
    """Train pairs, map one latent space rigidly onto the other, and measure both decoders."""
    assert isinstance(case, WarmupCase)
    rows, labels = load_digits(work.data).rows(case.n_rows, case.n_columns)
    if rows.shape[1] < case.widths[0]:
        raise InputError(
            f"the data have {rows.shape[1]} columns, fewer than the first layer "
            f"({case.widths[0]}); give larger images, such as MNIST (--data)"
        )
    groups = [np.arange(len(rows))]
    if case.by_digit:
        groups = [np.flatnonzero(labels == digit) for digit in range(10)]
        for own in groups:
            rows[own] -= rows[own].mean(axis=0)
    rng = np.random.default_rng([seed, 1])
    judged = [np.sort(rng.permutation(own)[:N_JUDGED]) for own in groups]
    runs = train_orthogonal(
        rows,
        [own for own in groups for _ in range(2)],
        [own for own in judged for _ in range(2)],
        OrthogonalAutoencoder((rows.shape[1], *case.widths), case.leak),
        case.budget,
        seed=seed,
        patience=case.patience,
    )
    pairs = [
        _Pair.of(first, second, rng, work.machine)
        for first, second in zip(runs[::2], runs[1::2], strict=True)
    ]
    found = [_mean(name, [pair.values[name] for pair in pairs]) for name in SHOWN]
    if case.by_digit:
        points = ((name, digit) for name in (ERROR, TERM, RECONSTRUCTION) for digit in range(10))
        return found + [Measured(name, pairs[at].values[name], at=at) for name, at in points]
    spread = np.quantile(pairs[0].constants, QUANTILES)
    shares = zip(QUANTILES, spread, strict=True)
    return found + [Measured(SPREAD, _finite(value), at=share) for share, value in shares]


@dataclass(frozen=True, eq=False)
class _Pair:
    """What is measured of two autoencoders, and K of both decoders at all samples."""

    values: dict[str, float]
    constants: FloatArray

    @classmethod
    def of(
        cls,
        first: OrthogonalRun,
        second: OrthogonalRun,
        rng: np.random.Generator,
        machine: Machine,
    ) -> "_Pair":
        both = [bilipschitz(run.jacobians, rng) for run in (first, second)]
        sampled = np.concatenate([each.sampled for each in both])
        exact = np.concatenate([each.exact for each in both])
        values = {
            ERROR: _rigid_error(first.latents, second.latents, machine),
            UNTRAINED: _rigid_error(first.untrained, second.untrained, machine),
            SIZE: sampled.mean(),
            TERM: term(sampled).mean(),
            LARGEST: term(sampled).max(),
            EXACT: term(exact).mean(),
            RECONSTRUCTION: max(first.reconstruction, second.reconstruction),
        }
        return cls({name: float(value) for name, value in values.items()}, sampled)


def _rigid_error(source: FloatArray, target: FloatArray, machine: Machine) -> float:
    """Return the error of the best rigid map over the diameter, the mean of both directions."""
    from repalign.comparison.run import compare

    result = compare(source, target, settings=COMPARE, machine=machine)
    return float(np.mean([float(record["error"]) for record in result.to_records()]))


def _mean(name: str, values: Sequence[float]) -> Measured:
    return Measured(name, _finite(float(np.mean(values))))


def _finite(value: float) -> float:
    """Return NaN for what is infinite: a decoder that is flat somewhere has no constant."""
    return value if np.isfinite(value) else float("nan")


def cases(
    widths: tuple[int, ...],
    budget: Budget,
    own_budget: Budget,
    *,
    n_rows: int | None = None,
    n_columns: int | None = None,
    patience: Patience | None = None,
) -> tuple[WarmupCase, ...]:
    """Return the leaks, for all digits together and for a pair a digit."""
    alike = WarmupCase("", 1.0, widths, budget, False, n_rows, n_columns, patience)
    return (
        *(replace(alike, name=pooled(leak), leak=leak) for leak in LEAKS),
        *(
            replace(alike, name=by_digit(leak), leak=leak, budget=own_budget, by_digit=True)
            for leak in LEAKS
        ),
    )


SMALL = cases(
    (48, 32, 8), Budget(1500, 128, 3e-3), Budget(900, 64, 3e-3), n_rows=10_000, n_columns=64
)
N_STEPS = 2000 * 60_000 // 256
PAPER = cases(
    (256, 128, 16),
    Budget(N_STEPS, 256, 1e-3, is_constant=True),
    Budget(N_STEPS // 10, 256, 1e-3, is_constant=True),
    patience=Patience(),
)

EXPERIMENT = Experiment(
    name="warmup",
    paper="arXiv 2603.11970, section 4.1, figures 2 and A.3 to A.6",
    shows="rigid error of two autoencoders against the bi-Lipschitz term of their decoders",
    needs="nothing; MNIST as it is shipped with --data DIR",
    differs=(
        "widths, size of the latents, values of the leak, batches, learning rate and the leak of "
        "the filter are ours, since our copy of the paper has lost them; layers are put back onto "
        "orthogonal ones after every step. The small preset trains for a fixed number of steps "
        "with a learning rate that rises and falls, on at most 64 principal directions of at most "
        "10,000 images, where the paper stops early."
    ),
    presets={
        "small": Preset(SMALL, n_seeds=5, seconds_per_seed=28),
        "paper": Preset(PAPER, n_seeds=10, seconds_per_seed=32_000, is_estimate=True),
    },
    measure=measure,
    sentences=sentences,
    plot=plot,
    shown=SHOWN,
    find_data=find_digits,
    fetches=("MNIST",),
)
