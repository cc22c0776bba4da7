"""What a small model is, how it is trained and in which format it is saved."""

import difflib
from dataclasses import dataclass
from typing import Literal

from repalign.exceptions import InputError

Kind = Literal["language-model", "masked-autoencoder", "classifier"]
Format = Literal["transformers", "timm"]


@dataclass(frozen=True)
class Recipe:
    """Everything that fixes a training but its seed.

    ``width`` is the number of columns of the embedding; ``depth`` and ``heads`` are of the
    encoder's blocks. ``steps`` is 0 for a model that stays as it was initialised.
    """

    name: str
    kind: Kind
    format: Format
    width: int
    depth: int
    heads: int
    steps: int
    batch_size: int
    learning_rate: float
    summary: str
    weight_decay: float = 0.05
    warmup_steps: int = 100
    checkpoint_steps: int = 100


_MAE = "trained to paint in the hidden three quarters of a digit"
_RESNET = "tells the ten digits apart"

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="gpt-neox",
            kind="language-model",
            format="transformers",
            width=64,
            depth=3,
            heads=4,
            steps=1500,
            batch_size=32,
            learning_rate=3e-3,
            summary="GPT-NeoX (the architecture of Pythia), predicts the next token of Shakespeare",
        ),
        Recipe(
            name="mae-transformers",
            kind="masked-autoencoder",
            format="transformers",
            width=48,
            depth=4,
            heads=4,
            steps=2000,
            batch_size=64,
            learning_rate=3e-3,
            summary=f"ViT-MAE in transformers' format, {_MAE}",
        ),
        Recipe(
            name="mae-timm",
            kind="masked-autoencoder",
            format="timm",
            width=48,
            depth=4,
            heads=4,
            steps=2000,
            batch_size=64,
            learning_rate=3e-3,
            summary=f"the same ViT-MAE in timm's format, {_MAE}",
        ),
        Recipe(
            name="mae-wide",
            kind="masked-autoencoder",
            format="transformers",
            width=72,
            depth=4,
            heads=6,
            steps=2000,
            batch_size=64,
            learning_rate=3e-3,
            summary=f"ViT-MAE of half as many columns again, {_MAE}",
        ),
        Recipe(
            name="mae-untrained",
            kind="masked-autoencoder",
            format="transformers",
            width=48,
            depth=4,
            heads=4,
            steps=0,
            batch_size=64,
            learning_rate=3e-3,
            summary="the same ViT-MAE as it was initialised, a control",
        ),
        Recipe(
            name="resnet",
            kind="classifier",
            format="timm",
            width=48,
            depth=8,
            heads=0,
            steps=800,
            batch_size=64,
            learning_rate=3e-3,
            summary=f"ResNet-18, narrow, in timm's format, {_RESNET}",
        ),
    )
}


def find_recipe(name: str) -> Recipe:
    """Return the recipe of that name.

    Raises InputError for an unknown name.
    """
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name, RECIPES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(RECIPES)}"
    raise InputError(f"no recipe is called {name!r}; {hint}")
