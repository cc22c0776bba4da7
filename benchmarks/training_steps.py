"""Alignment against the step of training: two seeds of the zoo's ResNet, saved as they learn.

Trains the recipe of the package from two seeds, saves each at some steps as timm would, extracts
its layers by the command line, and compares the two seeds; `--by revision` draws the result.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from fresh_models import repalign

from repalign.zoo.recipe import find_recipe
from repalign.zoo.train import make_task
from repalign.zoo.training import train_task


def train(folder: Path, seed: int, saved: list[int]) -> list[Path]:
    """Train one seed and return a folder for each step that was saved."""
    torch.manual_seed(seed)
    recipe = replace(find_recipe("resnet"), steps=saved[-1], checkpoint_steps=saved[-1])
    task, found = make_task(recipe), []

    def keep(step: int, _: int = 0) -> None:
        if step in saved:
            found.append(folder / f"seed{seed}" / f"checkpoint-{step}")
            found[-1].mkdir(parents=True, exist_ok=True)
            task.module.eval()
            task.save(found[-1])
            print(found[-1], task.figures(), flush=True)
            task.module.train()

    keep(0)
    train_task(task, recipe, seed, folder / "unused", keep)
    return found


def main() -> None:
    """Make everything in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", default="0,10,30,100,300")
    given = parser.parse_args()
    torch.set_num_threads(1)
    saved = [int(step) for step in given.steps.split(",")]
    stores = []
    for seed in (0, 1):
        for model in train(given.folder, seed, saved):
            store = f"{given.folder}/seed{seed}-{model.name}.h5"
            views = ["--layer", "1", "--layer", "final"]
            repalign("extract", str(model), "--data", "builtin:digits", *views, "-o", store)
            stores.append(store)
    half = len(saved)
    for name, chosen in {
        "together": stores,
        "towards-the-end": [*stores[: half - 1], "--against", stores[-1]],
    }.items():
        result = str(given.folder / f"{name}.json")
        asked = ["--layers", "all", "--maps", "rigid", "--measures", "linear-cka", "--quick"]
        repalign("compare", *chosen, *asked, "-o", result)
        page = str(given.folder / f"{name}.html")
        repalign("report", result, "--by", "revision", "-o", page)


if __name__ == "__main__":
    main()
