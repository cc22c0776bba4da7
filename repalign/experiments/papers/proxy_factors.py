"""Do image embeddings tell proxies of the factors linearly? Reizinger et al. 2025 (ImageNet-X)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from repalign.experiments.reproduce.drawing import dot_plot
from repalign.experiments.reproduce.experiment import (
    Case,
    Experiment,
    Measured,
    Preset,
    Work,
)
from repalign.zoo.recipe import find_recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repalign.aliases import FloatArray
    from repalign.experiments.reproduce.results import Reproduction

FACTORS = ("ink", "width", "height", "slant")
ALL = "all four"
DATA = "builtin:digits"
UNTRAINED = "resnet-untrained"
STORES = "stores"


@dataclass(frozen=True)
class EncoderCase(Case):
    """What the factors are read from: a shipped model, an untrained one, or the pixels."""

    encoder: str
    kind: Literal["model", "untrained", "pixels"] = "model"


def prepare(size: Preset, work: Work) -> None:
    """Extract the embeddings of all digits by every model."""
    from repalign.experiments.table_one import extract_all
    from repalign.experiments.table_one_pairs import Extraction
    from repalign.zoo.train import train_recipe

    wanted = []
    for case in size.cases:
        assert isinstance(case, EncoderCase)
        if case.kind == "untrained":
            place = work.folder / "models" / UNTRAINED
            train_recipe(replace(find_recipe("resnet"), name=UNTRAINED, steps=0), 0, place)
            wanted.append(Extraction(case.encoder, str(place), DATA))
        elif case.kind == "model":
            wanted.append(Extraction(case.encoder, case.encoder, DATA))
    machine = work.machine
    extract_all(wanted, work.folder / STORES, device=machine.device, on_stage=machine.on_stage)


def measure(case: Case, seed: int, work: Work) -> Sequence[Measured]:
    """Fit every factor by least squares on a random half of the digits, and judge the other."""
    from repalign.core.moments import pair_moments
    from repalign.core.rows import ArrayRows
    from repalign.core.similarity.canonical import FittingMoments
    from repalign.core.similarity.linear import least_squares
    from repalign.data.builtin_factors import builtin_columns

    assert isinstance(case, EncoderCase)
    columns = builtin_columns(DATA).columns
    rows = _rows(case, work)
    order = np.random.default_rng([seed, 4]).permutation(len(rows))
    first, second = np.array_split(order, 2)
    found = []
    for name in FACTORS:
        values = np.asarray(columns[name], np.float64)[:, None]
        (fit,), (judged,) = (
            pair_moments(ArrayRows(rows[half]), ArrayRows(values[half])) for half in (first, second)
        )
        found.append(Measured(name, least_squares(FittingMoments.of(fit), judged).mean))
    return [*found, Measured(ALL, float(np.mean([each.value for each in found])))]


def _rows(case: EncoderCase, work: Work) -> "FloatArray":
    """Return the embeddings of the digits in their order, or their pixels."""
    from sklearn.datasets import load_digits

    from repalign.store import open_store

    if case.kind == "pixels":
        pixels: FloatArray = load_digits().data.astype(np.float64)
        return pixels
    with open_store(work.folder / STORES / f"{case.encoder}.h5") as store:
        (view,) = store.views
        rows: FloatArray = store.view(view).read(0, len(store))
    return rows


def sentences(result: "Reproduction") -> Sequence[str]:
    """Say what training to classify adds to an untrained network and to the pixels."""
    trained, masked, untrained, pixels = (
        result.find(name, ALL) for name in (CLASSIFIER, MASKED, RANDOM, PIXELS)
    )
    more = "more" if trained.low > untrained.high else "no more"
    than = "above" if trained.low > pixels.high else "not above"
    return (
        f"A linear map reads the four factors from the classifier's embeddings with R² "
        f"{trained.mean:.3f}, {more} than from those of the same network untrained "
        f"({untrained.mean:.3f}) and {than} the pixels' ({pixels.mean:.3f}); a masked "
        f"autoencoder's give {masked.mean:.3f}.",
    )


def plot(result: "Reproduction") -> "Figure":
    """Draw R² of every factor by encoder."""
    return dot_plot(result, FACTORS, label="R² on digits that the map was not fitted on")


CLASSIFIER, MASKED = "ResNet-18, classifies digits", "ViT-MAE, paints in hidden patches"
RANDOM, PIXELS = "ResNet-18, untrained", "pixels"
SMALL = (
    EncoderCase(CLASSIFIER, "resnet-seed0"),
    EncoderCase("ResNet-18, another seed", "resnet-seed1"),
    EncoderCase(MASKED, "mae-transformers-seed0"),
    EncoderCase("ViT-MAE, untrained", "mae-untrained-seed1"),
    EncoderCase(RANDOM, UNTRAINED, "untrained"),
    EncoderCase(PIXELS, "pixels", "pixels"),
)

EXPERIMENT = Experiment(
    name="proxy-factors",
    paper="Reizinger et al. 2025, arXiv 2410.21869",
    shows="how well factors of images are read linearly from embeddings of trained networks",
    needs="the shipped models",
    differs=(
        "digits and small networks for ImageNet-X and networks trained on ImageNet; the factors "
        "are measured on the pixels (mean grey, spread in both directions, shear), where the paper "
        "has attributes told by people. Its table was not at hand. A seed is a split in halves."
    ),
    presets={"small": Preset(SMALL, n_seeds=5, seconds_per_seed=1)},
    measure=measure,
    sentences=sentences,
    plot=plot,
    prepare=prepare,
)
