"""Does ICA of a plain autoencoder's latents find the factors? Section 4.3 and A.7.3 of the paper.

Autoencoders with twice as many latents as factors, weight decay the only thing that is varied,
next to a β-VAE and a β-TCVAE of the same layers; the best of every grid by modularity, as in
Hsu et al. (2023).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from repalign.aliases import FloatArray, IntArray
from repalign.conditions.settings import TransformSettings
from repalign.core.linalg import random_rotation
from repalign.disentanglement.settings import FactorSettings
from repalign.engine.machine import Machine
from repalign.experiments.factor_images.open_factors import find_factor_images, read_factor_images
from repalign.experiments.papers.reports.disentangle import (
    CONDITIONS,
    INFO_MEC,
    NULL,
    PUBLISHED,
    RECONSTRUCTION,
    ROTATION,
    SHOWN,
    plot,
    scored,
    select,
    sentences,
)
from repalign.experiments.reproduce.experiment import Case, Experiment, Measured, Preset, Work
from repalign.experiments.sprite_autoencoder import (
    AutoencoderSettings,
    SpriteAutoencoder,
    encode_images,
    train_autoencoder,
)

# One draw for all seeds: fits differ in their starts and batches, not in their data.
DATA_SEED = 0
SCORES = FactorSettings(
    scores=("infomec",),
    n_null=0,
    n_halves=0,
    max_rows=0,
    transform=TransformSettings(conditions=tuple(CONDITIONS)),
)
RAW = replace(SCORES, transform=TransformSettings(conditions=("raw",)))


@dataclass(frozen=True)
class FactorCase(Case):
    """One setting of the grid of one kind of autoencoder.

    Attributes:
        family: What the paper calls it.
        settings: How it is trained; its seed, and the number of latents, are those of the unit.
        at: Numbers of steps after which it is judged; the best of them is chosen.
        n_images: Images drawn from the data; None for all.
        n_judged: The first of them, on which it is judged; the authors' code judges on images of
            the training too.
    """

    family: str
    settings: AutoencoderSettings
    at: tuple[int, ...]
    n_images: int | None
    n_judged: int


def measure(case: Case, seed: int, work: Work) -> Sequence[Measured]:
    """Train one autoencoder and score its latents, and their ICA, along the way."""
    assert isinstance(case, FactorCase)
    data = read_factor_images(work.data, case.n_images, DATA_SEED)
    images = data.images[: case.n_judged]
    factors = {name: levels[: case.n_judged] for name, levels in data.factors.items()}
    latents: dict[int, FloatArray] = {}
    errors: dict[int, float] = {}

    def keep(step: int, state: SpriteAutoencoder) -> None:
        if step in (0, *case.at):
            latents[step] = encode_images(state, images)
            # of the batches since the last hundred steps; there is none before the first
            errors[step] = float(np.mean(state.losses[-100:])) if step else float("nan")

    settings = replace(case.settings, n_latents=2 * len(factors), seed=seed)
    train_autoencoder(data.images, settings, on_step=keep)
    found = [Measured(RECONSTRUCTION, errors[step], at=step) for step in case.at]
    last = case.at[-1]
    turn = random_rotation(settings.n_latents, np.random.default_rng([seed, 1]))
    for step, rows in latents.items():
        own = partial(_scores, factors=factors, step=step, machine=work.machine)
        found += own(rows, SCORES, n_null=int(step == last))
        found += own(rows @ turn, RAW, suffix=ROTATION)
    return [*found, *(Measured(each.measure, each.value) for each in found if each.at == last)]


def _scores(
    rows: FloatArray,
    settings: FactorSettings,
    *,
    factors: Mapping[str, IntArray],
    step: int,
    machine: Machine,
    n_null: int = 0,
    suffix: str = "",
) -> list[Measured]:
    from repalign.disentanglement.run import disentangle

    result = disentangle(rows, factors, settings=replace(settings, n_null=n_null), machine=machine)
    found = []
    for record in result.to_records():
        name = scored(record["score"], record["condition"]) + suffix
        found.append(Measured(name, _number(record["value"]), at=step))
        if n_null and record["score"] == INFO_MEC[0]:
            found.append(Measured(name + NULL, _number(record["null"]), at=step))
    return found


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def cases(
    like: FactorCase, decays: Sequence[float], betas: Sequence[float], correlations: Sequence[float]
) -> tuple[FactorCase, ...]:
    """Return the grids of the three kinds."""

    def case(name: str, family: str, **changes: object) -> FactorCase:
        settings = replace(like.settings, **changes)  # type: ignore[arg-type]
        return replace(like, name=name, family=family, settings=settings)

    return (
        *(case(f"AE, decay {decay:g}", "AE", weight_decay=decay) for decay in decays),
        *(
            case(f"β-VAE, β = {beta:g}", "β-VAE", kind="beta-vae", beta=beta, weight_decay=0.0)
            for beta in betas
        ),
        *(
            case(
                f"β-TCVAE, β = {beta:g}", "β-TCVAE", kind="beta-tcvae", beta=beta, weight_decay=0.0
            )
            for beta in correlations
        ),
    )


SMALL = cases(
    FactorCase(
        "", "",
        AutoencoderSettings(
            n_steps=3000, batch_size=32, learning_rate=3e-3, is_cycle=True, channels=(8, 16, 32)
        ),
        (1000, 2000, 3000), n_images=10_000, n_judged=2000,
    ),
    decays=(0.0, 0.01, 0.1),
    betas=(4.0,),
    correlations=(4.0,),
)  # fmt: skip
PAPER = cases(
    FactorCase(
        "", "", AutoencoderSettings(n_steps=200_000, batch_size=128, channels=(32, 64, 128, 256)),
        tuple(range(5000, 200_001, 5000)), n_images=None, n_judged=10_000,
    ),
    decays=(0.0, 1e-3, 1e-2, 1e-1, 1.0),
    betas=(1.0, 3.0, 10.0),
    correlations=(3.0, 10.0, 30.0),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="disentangle",
    paper="arXiv 2603.11970, section 4.3, Table 2",
    shows="InfoM, InfoE and InfoC of a plain autoencoder before and after ICA, and of VAEs",
    needs="nothing; Shapes3D, MPI3D, Falcor3D, Isaac3D or dSprites with --data DIR",
    differs=(
        "four strided convolutions and their mirror image (three in the small preset) instead of "
        "the networks of Hsu et al. (2023) with instance norm and style; weight decay also shrinks "
        "biases; the grids and the filter (reconstruction within a tenth of the best of the "
        "family) are ours, since the paper does not give them. Judged on images of the training, "
        "as there. The small preset draws 10,000 images and trains for 3,000 steps instead of "
        "200,000, with a learning rate that rises and falls."
    ),
    presets={
        "small": Preset(SMALL, n_seeds=3, seconds_per_seed=145),
        "paper": Preset(PAPER, n_seeds=3, seconds_per_seed=11 * 200_000 * 1.5, is_estimate=True),
    },
    measure=measure,
    sentences=sentences,
    plot=plot,
    published=PUBLISHED,
    shown=SHOWN,
    find_data=find_factor_images,
    fetches=("Shapes3D",),
    select=select,
)
