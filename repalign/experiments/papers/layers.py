"""Is the layer before the head the one that trainings share most? Roeder et al. 2021, 5.3."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from repalign.experiments.reproduce.drawing import COLOURS, draw_curve
from repalign.experiments.reproduce.experiment import (
    Case,
    Experiment,
    Measured,
    Preset,
    Work,
)
from repalign.figures.style import new_figure
from repalign.printable import for_figure
from repalign.zoo.recipe import Recipe, find_recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repalign.aliases import Rows
    from repalign.experiments.reproduce.results import Reproduction
    from repalign.store.source import EmbeddingSource

LAST = "last layer"
BETWEEN = ("embeddings", "a third", "two thirds", LAST)
UNRELATED = "unrelated rows"
HIGHEST = "last is highest"


@dataclass(frozen=True)
class SharedModel:
    """A language model that is there already: shipped, or a repository of the model hub."""

    name: str
    depth: int
    is_shipped: bool = False


@dataclass(frozen=True)
class LayersCase(Case):
    """Language models whose layers are compared, all pairs of them.

    Attributes:
        models: Models that are there already; their rows are drawn by the seed.
        trained: Recipes of models that are trained from the seed.
        components: How many principal directions SVCCA takes, one after the other; the last is
            the width of the narrowest model, as in the paper.
        n_samples: Texts that are read; None for all.
        tokens_per_sample: Rows drawn from each text.
    """

    models: tuple[SharedModel, ...] = ()
    trained: tuple[Recipe, ...] = ()
    components: tuple[int, ...] = (16, 64)
    n_samples: int | None = None
    tokens_per_sample: int = 10


def measure(case: Case, seed: int, work: Work) -> Sequence[Measured]:
    """Extract four layers of every model; average SVCCA over all pairs of models by layer."""
    from repalign.store.matching import join_sources

    assert isinstance(case, LayersCase)
    chosen = [_found(each) for each in case.models]
    # equal starts would give models of equal shapes equal weights
    first = seed * len(case.trained)
    chosen += [_trained(each, own, work) for own, each in enumerate(case.trained, first)]
    layers = [
        _layers(_extract(case, seed, work, name, model, depth), depth)
        for name, model, depth in chosen
    ]
    rows = [join_sources(same_layer).rows for same_layer in zip(*layers, strict=True)]
    found = []
    for k in case.components:
        course = [_mean_similarity(of_layer, k) for of_layer in rows]
        for place, (name, value) in enumerate(zip(BETWEEN, course, strict=True)):
            found += [Measured(column(name, k), value), Measured(curve(k), value, at=place)]
        found.append(Measured(column(UNRELATED, k), _mean_similarity(_apart(rows[-1]), k)))
        found.append(Measured(column(HIGHEST, k), float(np.argmax(course) == 3)))
    return found


def column(layer: str, components: int) -> str:
    """Return what the similarity of a layer is called."""
    return f"{layer}, k = {components}"


def curve(components: int) -> str:
    """Return what the similarity from layer to layer is called."""
    return f"SVCCA, k = {components}"


def _found(model: SharedModel) -> tuple[str, str, int]:
    """Return the name of a model, what extraction takes for it, and its number of blocks."""
    from repalign.zoo.shipped import shipped_path

    path = str(shipped_path(model.name)) if model.is_shipped else model.name
    return model.name, path, model.depth


def _trained(recipe: Recipe, start: int, work: Work) -> tuple[str, str, int]:
    """Train one model, or go on where a training was stopped."""
    from repalign.zoo.train import train_recipe

    place = work.folder / "models" / f"{recipe.name}-start{start}"
    if not place.exists():
        train_recipe(recipe, start, place)
    return place.name, str(place), recipe.depth


def _extract(case: LayersCase, seed: int, work: Work, name: str, model: str, depth: int) -> Path:
    """Extract the four layers of one model on the texts; what is there is kept."""
    from repalign.extraction.run import extract
    from repalign.extraction.settings import ExtractSettings

    store = work.folder / "stores" / f"{name.replace('/', '-')}-rows{seed}.h5"
    store.parent.mkdir(parents=True, exist_ok=True)
    settings = ExtractSettings(
        model=model,
        data="builtin:shakespeare",
        output=store,
        layers=("0", *map(str, _blocks(depth)), "final"),
        tokens=f"sample:{case.tokens_per_sample}",
        limit=case.n_samples,
        device=str(work.machine.device or "auto"),
        seed=seed,
    )
    extract(settings)
    return store


def _blocks(depth: int) -> tuple[int, int]:
    """Return the blocks after which a third and two thirds of the model are done."""
    return round(depth / 3), round(2 * depth / 3)


def _layers(store: Path, depth: int) -> list["EmbeddingSource"]:
    """Open the four layers in the order of the model."""
    from repalign.store.open import open_embeddings

    names = ("embeddings", *(f"block-{number}" for number in _blocks(depth)), "final")
    return [open_embeddings(store, view=name) for name in names]


def _apart(rows: Sequence["Rows"]) -> list["Rows"]:
    """Pair every input with one half the store away, so that nothing is in common."""
    from repalign.core.rows import ArrayRows

    n_rows = rows[0].shape[0]
    return [
        ArrayRows(np.roll(each.read(0, n_rows), number * n_rows // len(rows), axis=0))
        for number, each in enumerate(rows)
    ]


def _mean_similarity(rows: Sequence["Rows"], components: int) -> float:
    """Return SVCCA of columns of unit variance, as in the paper, averaged over all pairs."""
    from repalign.core.measures import (
        FittingMoments,
        canonical_correlations,
        standardised,
    )
    from repalign.core.moments import pair_moments

    found = []
    for x, y in combinations(rows, 2):
        (moments,) = pair_moments(x, y)
        fit = FittingMoments.of(standardised(moments))
        found.append(canonical_correlations(fit, components=components).mean)
    return float(np.mean(found))


def sentences(result: "Reproduction") -> Sequence[str]:
    """Say where the last layer is the most similar one, and how far from unrelated rows."""
    lines = []
    for case in result.experiment.preset(result.preset).cases:
        assert isinstance(case, LayersCase)
        told = []
        for k in case.components:
            last, *rest = (result.find(case.name, column(name, k)) for name in (LAST, *BETWEEN[:3]))
            highest = max(rest, key=lambda each: each.mean)
            place = highest.measure.split(",")[0]
            chance = result.find(case.name, column(UNRELATED, k)).mean
            share = result.find(case.name, column(HIGHEST, k))
            told.append(
                f"k = {k}: last {last.mean:.3f}, best other {highest.mean:.3f} ({place}), "
                f"unrelated rows {chance:.3f}; last is highest in {sum(share.values):.0f} of "
                f"{len(share.values)} seeds"
            )
        lines.append(f"{case.name}: {'; '.join(told)}.")
    does = [each.mean for each in result.results() if each.measure.startswith(HIGHEST)]
    verdict = "reproduces" if min(does) > 0.5 else "does NOT reproduce"
    return (
        f"The published finding, the last layer is the most similar one, {verdict} here.",
        *lines,
    )


def plot(result: "Reproduction") -> "Figure":
    """Draw the similarity from layer to layer, a panel a case and a line for every k."""
    cases = result.experiment.preset(result.preset).cases
    figure = new_figure(3.4 * len(cases) + 0.6, 3.8)
    panels = figure.subplots(1, len(cases), squeeze=False, sharey=True)[0]
    for panel, case in zip(panels, cases, strict=True):
        assert isinstance(case, LayersCase)
        panel.spines[["top", "right"]].set_visible(False)
        for k, colour in zip(case.components, COLOURS, strict=False):
            draw_curve(panel, result.curve(case.name, curve(k)), colour=colour, label=f"k = {k}")
            chance = result.find(case.name, column(UNRELATED, k)).mean
            panel.axhline(chance, color=colour, linestyle=":", linewidth=0.8)
        panel.set_xticks(range(4), BETWEEN)
        panel.set_title(for_figure(case.name), fontsize="medium")
        panel.set_ylim(0, 1)
        panel.legend(frameon=False, ncols=2, fontsize="small")
    panels[0].set_ylabel("SVCCA, dotted: unrelated rows")
    return figure


def _sizes() -> tuple[Recipe, ...]:
    """Return a family of one architecture in three widths, trained for 500 steps."""
    shipped = find_recipe("gpt-neox")
    return tuple(
        replace(shipped, name=f"gpt-neox-{width}", width=width, steps=500, batch_size=16)
        for width in (32, 48, 64)
    )


SHIPPED = LayersCase(
    "shipped pair, 64 columns",
    models=tuple(SharedModel(f"gpt-neox-seed{seed}", 3, is_shipped=True) for seed in (0, 1)),
    components=(4, 16, 32, 64),
)
SIZES = LayersCase("32, 48 and 64 columns", trained=_sizes(), components=(4, 8, 16, 32))
GPT_2 = LayersCase(
    "GPT-2, four sizes",
    models=(
        SharedModel("gpt2", 12),
        SharedModel("gpt2-medium", 24),
        SharedModel("gpt2-large", 36),
        SharedModel("gpt2-xl", 48),
    ),
    components=(16, 64, 256, 768),
    tokens_per_sample=50,
)

EXPERIMENT = Experiment(
    name="layers",
    paper="Roeder et al. 2021, section 5.3",
    shows="SVCCA of four layers of several language models; the last one was published as highest",
    needs="nothing; --preset paper the model hub, about 11 GB of weights and better a GPU",
    differs=(
        "small GPT-NeoX models of one tokenizer stand for four sizes of GPT-2, with k up to the "
        "narrowest width, as there; 10 random tokens of each of 891 paragraphs of Shakespeare "
        "are the rows, where the paper has all tokens of about 2000 sentences. It gives its values "
        "in a figure only, so that no number stands next to ours. Rows of unrelated places of the "
        "text are our baseline."
    ),
    presets={
        "small": Preset((SHIPPED, SIZES), n_seeds=3, seconds_per_seed=85),
        "paper": Preset((GPT_2,), n_seeds=1, seconds_per_seed=60_000, is_estimate=True),
    },
    measure=measure,
    sentences=sentences,
    plot=plot,
    # of all k in the files and in the figure
    shown=tuple(column(name, 32) for name in (*BETWEEN, UNRELATED)),
)
