"""Do image embeddings tell proxies of the factors linearly? Reizinger et al. 2025 (ImageNet-X)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from repalign.exceptions import InputError
from repalign.experiments.imagenet_x import FACTORS as OF_PHOTOGRAPHS
from repalign.experiments.imagenet_x import find_imagenet_x, load_imagenet_x
from repalign.experiments.reproduce.drawing import dot_plot
from repalign.experiments.reproduce.experiment import (
    Case,
    Experiment,
    Measured,
    Preset,
    Work,
)
from repalign.experiments.reproduce.given_data import GivenData
from repalign.zoo.recipe import find_recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repalign.aliases import FloatArray
    from repalign.experiments.reproduce.results import Reproduction
    from repalign.experiments.table_one_pairs import Extraction

OF_DIGITS = ("ink", "width", "height", "slant")
DIGITS = "builtin:digits"
STORES, LISTED = "stores", "images.txt"
ALL = {"digits": "all four", "photographs": "all sixteen"}
PIXELS_A_SIDE = 32


@dataclass(frozen=True)
class EncoderCase(Case):
    """What the factors are read from: a trained model, an untrained one, or the pixels.

    Attributes:
        encoder: A shipped model or any checkpoint that ``extract`` takes.
        kind: What it is; an untrained one has the architecture of ``encoder``.
        images: What it is shown.
    """

    encoder: str
    kind: Literal["model", "untrained", "pixels"] = "model"
    images: Literal["digits", "photographs"] = "digits"

    @property
    def store(self) -> str:
        """Name of its store."""
        return f"{self.encoder.replace(':', '-')}{'-untrained' * (self.kind == 'untrained')}"


def find_data(path: Path | None) -> GivenData:
    """Tell which images these are: ImageNet-X in the user's folder, or scikit-learn's digits."""
    return GivenData("digits of scikit-learn") if path is None else find_imagenet_x(path)


def prepare(size: Preset, work: Work) -> None:
    """Extract the embeddings of all images by every model."""
    from repalign.experiments.table_one import extract_all
    from repalign.store import write_store

    cases = [case for case in size.cases if isinstance(case, EncoderCase)]
    shown = {case.images for case in cases}
    folder = None if work.data is None else work.data.path
    if shown == {"digits"} and folder is not None:
        raise InputError(f"{folder}: the small preset shows digits; take it to --preset paper")
    work.folder.mkdir(parents=True, exist_ok=True)
    data = DIGITS if shown == {"digits"} else str(_list_images(work))
    machine = work.machine
    wanted = [_extraction(case, data, work) for case in cases if case.kind != "pixels"]
    extract_all(wanted, work.folder / STORES, device=machine.device, on_stage=machine.on_stage)
    pixels = work.folder / STORES / f"{PIXELS}.h5"
    if shown == {"photographs"} and not pixels.exists():
        write_store(pixels, _pixels(load_imagenet_x(_photographs(work)).images))


def _list_images(work: Work) -> Path:
    listed = work.folder / LISTED
    images = load_imagenet_x(_photographs(work)).images
    listed.write_text("".join(f"{image.resolve()}\n" for image in images), encoding="utf-8")
    return listed


def _photographs(work: Work) -> Path:
    if work.data is None or work.data.path is None:
        raise InputError(
            "proxy-factors --preset paper is run on ImageNet-X: give a folder with its annotations "
            "and ImageNet's validation images to --data"
        )
    return work.data.path


def _extraction(case: EncoderCase, data: str, work: Work) -> "Extraction":
    from repalign.experiments.table_one_pairs import Extraction

    model = case.encoder if case.kind == "model" else _untrained(case, work.folder / "models")
    return Extraction(case.store, model, data)


def _untrained(case: EncoderCase, folder: Path) -> str:
    """Make a network of this architecture with random weights, and return how it is named."""
    import torch

    from repalign.zoo.train import train_recipe

    place = folder / case.store
    if case.images == "digits":
        train_recipe(replace(find_recipe(case.encoder), name=case.store, steps=0), 0, place)
        return str(place)
    import torchvision

    weights = place.with_suffix(".pth")
    if not weights.exists():
        torch.manual_seed(0)
        network = torchvision.models.get_model(case.encoder.removeprefix("torchvision:"))
        weights.parent.mkdir(parents=True, exist_ok=True)
        torch.save(network.state_dict(), weights)
    return f"{case.encoder}@{weights}"


def measure(case: Case, seed: int, work: Work) -> Sequence[Measured]:
    """Fit all factors by least squares on a random half of the images, and judge the other.

    Measured factors are judged by R², those that are there or not by the area under the ROC.
    """
    from sklearn.metrics import r2_score, roc_auc_score

    from repalign.core.maps.linear import fit_linear
    from repalign.core.moments import pair_moments
    from repalign.core.rows import ArrayRows

    assert isinstance(case, EncoderCase)
    names, factors = _factors(case, work)
    rows = _rows(case, work)
    order = np.random.default_rng([seed, 4]).permutation(len(rows))
    first, second = np.array_split(order, 2)
    (moments,) = pair_moments(ArrayRows(rows[first]), ArrayRows(factors[first]))
    predicted, true = fit_linear(moments).apply(rows[second]), factors[second]
    score = r2_score if case.images == "digits" else roc_auc_score
    found = []
    for column, name in enumerate(names):
        varies = np.ptp(true[:, column]) > 0
        value = score(true[:, column], predicted[:, column]) if varies else np.nan
        found.append(Measured(name, float(value)))
    return [*found, Measured(ALL[case.images], float(np.nanmean([each.value for each in found])))]


def _factors(case: EncoderCase, work: Work) -> tuple[Sequence[str], "FloatArray"]:
    from repalign.data.builtin_factors import builtin_columns

    if case.images == "photographs":
        return OF_PHOTOGRAPHS, load_imagenet_x(_photographs(work)).factors
    columns = builtin_columns(DIGITS).columns
    return OF_DIGITS, np.column_stack([np.asarray(columns[name], float) for name in OF_DIGITS])


def _rows(case: EncoderCase, work: Work) -> "FloatArray":
    """Return the embeddings of the images in their order, or their pixels."""
    from sklearn.datasets import load_digits

    from repalign.store import open_store

    rows: FloatArray
    if case.kind == "pixels" and case.images == "digits":
        rows = load_digits().data.astype(np.float64)
        return rows
    with open_store(work.folder / STORES / f"{case.store}.h5") as store:
        (view,) = store.views
        rows = store.view(view).read(0, len(store))
    return rows


def _pixels(images: Sequence[Path]) -> "FloatArray":
    return np.stack([_small_pixels(image) for image in images])


def _small_pixels(image: Path) -> "FloatArray":
    from repalign.data.images import decode_image
    from repalign.files import open_regular

    with open_regular(image) as file:
        whole = decode_image(file.read(), image.name)
    small = whole.convert("RGB").resize((PIXELS_A_SIDE, PIXELS_A_SIDE))
    return np.asarray(small, dtype=np.float32).ravel() / 255


def sentences(result: "Reproduction") -> Sequence[str]:
    """Say what training to classify adds to an untrained network and to the pixels."""
    images = "digits" if result.preset == "small" else "photographs"
    trained, masked, untrained, pixels = (
        result.find(name, ALL[images])
        for name in (CLASSIFIER[images], MASKED[images], RANDOM[images], PIXELS)
    )
    more = "more" if trained.low > untrained.high else "no more"
    than = "above" if trained.low > pixels.high else "not above"
    factors, score = ALL[images].removeprefix("all "), SCORES[images]
    return (
        f"A linear map reads the {factors} factors from the classifier's embeddings with {score} "
        f"{trained.mean:.3f}, {more} than from those of the same network untrained "
        f"({untrained.mean:.3f}) and {than} the pixels' ({pixels.mean:.3f}); a masked "
        f"autoencoder's give {masked.mean:.3f}.",
    )


def plot(result: "Reproduction") -> "Figure":
    """Draw the score of every factor by encoder; of many factors their mean alone."""
    if result.preset == "small":
        return dot_plot(result, OF_DIGITS, label="R² on digits that the map was not fitted on")
    label = "area under the ROC, mean of sixteen factors, on images that the map was not fitted on"
    return dot_plot(result, [ALL["photographs"]], label=label)


SCORES = {"digits": "R²", "photographs": "an area under the ROC of"}
CLASSIFIER = {
    "digits": "ResNet-18, classifies digits",
    "photographs": "ResNet-50, classifies ImageNet",
}
MASKED = {
    "digits": "ViT-MAE, paints in hidden patches",
    "photographs": "ViT-MAE, base, paints in hidden patches",
}
RANDOM = {"digits": "ResNet-18, untrained", "photographs": "ResNet-50, untrained"}
PIXELS = "pixels"
SMALL = (
    EncoderCase(CLASSIFIER["digits"], "resnet-seed0"),
    EncoderCase("ResNet-18, another seed", "resnet-seed1"),
    EncoderCase(MASKED["digits"], "mae-transformers-seed0"),
    EncoderCase("ViT-MAE, untrained", "mae-untrained-seed1"),
    EncoderCase(RANDOM["digits"], "resnet", "untrained"),
    EncoderCase(PIXELS, "pixels", "pixels"),
)
LARGE = tuple(
    replace(case, images="photographs")
    for case in (
        EncoderCase(CLASSIFIER["photographs"], "torchvision:resnet50"),
        EncoderCase("ResNet-18, classifies ImageNet", "torchvision:resnet18"),
        EncoderCase("ConvNeXt, tiny, classifies ImageNet", "torchvision:convnext_tiny"),
        EncoderCase("ViT-B/16, classifies ImageNet", "torchvision:vit_b_16"),
        EncoderCase(MASKED["photographs"], "timm:vit_base_patch16_224.mae"),
        EncoderCase(RANDOM["photographs"], "torchvision:resnet50", "untrained"),
        EncoderCase(PIXELS, "pixels", "pixels"),
    )
)

EXPERIMENT = Experiment(
    name="proxy-factors",
    paper="Reizinger et al. 2025, arXiv 2410.21869",
    shows="how well factors of images are read linearly from embeddings of trained networks",
    needs="the shipped models; --preset paper the model hub (1 GB), ImageNet-X and better a GPU",
    differs=(
        "digits and small networks for ImageNet-X and networks trained on ImageNet; the factors "
        "are measured on the pixels (mean grey, spread in both directions, shear), where the paper "
        "has attributes told by people. Its table was not at hand, and which networks it took "
        "neither: --preset paper takes common ones. A seed is a split in halves."
    ),
    presets={
        "small": Preset(SMALL, n_seeds=5, seconds_per_seed=1),
        "paper": Preset(LARGE, n_seeds=5, seconds_per_seed=9_000, is_estimate=True),
    },
    measure=measure,
    sentences=sentences,
    plot=plot,
    prepare=prepare,
    find_data=find_data,
)
