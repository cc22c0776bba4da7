"""Training a model of the zoo by its name, and the record of how it was made."""

import hashlib
import json
import platform
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from repalign.core.device import threads_held
from repalign.exceptions import InputError
from repalign.files import open_regular
from repalign.zoo.recipe import Recipe, find_recipe
from repalign.zoo.task import Figures, Task
from repalign.zoo.training import OnProgress, train_task

RECORD = "training.json"
WEIGHTS = "model.safetensors"
_VERSIONED = ("numpy", "scikit-learn", "timm", "tokenizers", "torch", "transformers")
_DATA = {
    "language-model": "Shakespeare (public domain), 1.0 MB; judged on another 0.1 MB",
    "masked-autoencoder": "scikit-learn's digits (CC BY 4.0), 1437; judged on the other 360",
    "classifier": "scikit-learn's digits (CC BY 4.0), 1437; judged on the other 360",
}


@dataclass(frozen=True)
class Trained:
    """A trained model: where it lies, and what its record says."""

    path: Path
    recipe: str
    seed: int
    figures: Figures
    parameters: int
    files: Mapping[str, str]


def train_model(
    name: str, seed: int, output: Path, on_progress: OnProgress | None = None
) -> Trained:
    """Train a recipe from a seed into a new directory; the same call continues after a stop.

    Raises:
        InputError: No recipe has that name, or the directory holds something else.
    """
    return train_recipe(find_recipe(name), seed, output, on_progress)


def train_recipe(
    recipe: Recipe, seed: int, output: Path, on_progress: OnProgress | None = None
) -> Trained:
    """Train what a recipe says, listed or not; the same call continues after a stop.

    Raises:
        InputError: The seed is negative, or the directory holds something else.
    """
    import torch

    if seed < 0:
        raise InputError(f"seed: got {seed}, expected 0 or more")
    if output.exists():
        return _finished(output, recipe, seed)
    output.parent.mkdir(parents=True, exist_ok=True)
    checkpoint = output.with_name(f".{output.name}.checkpoint")
    with threads_held(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        task = make_task(recipe)
        train_task(task, recipe, seed, checkpoint, on_progress)
        task.module.eval()
        _write(task, recipe, seed, output)
    checkpoint.unlink(missing_ok=True)
    return read_training(output)


def make_task(recipe: Recipe) -> Task:
    """Return the untrained model of a recipe with its data; it takes torch's random numbers."""
    from repalign.zoo.classifier import ClassifierTask
    from repalign.zoo.language_model import LanguageModelTask
    from repalign.zoo.masked_autoencoder import MaskedAutoencoderTask

    if recipe.kind == "language-model":
        return LanguageModelTask(recipe)
    if recipe.kind == "masked-autoencoder":
        return MaskedAutoencoderTask(recipe)
    return ClassifierTask(recipe)


def read_training(directory: Path) -> Trained:
    """Read the record of how a model was trained.

    Raises InputError when there is none.
    """
    problem = f"{directory} holds no readable {RECORD}; expected what `repalign zoo train` wrote"
    try:
        with open_regular(directory / RECORD) as file:
            record = json.load(file)
    except (InputError, OSError, ValueError, RecursionError) as error:
        raise InputError(problem) from error
    names = ("recipe", "seed", "figures", "parameters", "files")
    values: list[Any] = [record.get(name) for name in names] if isinstance(record, dict) else []
    kinds = [dict, int, dict, int, dict]
    if not values or not all(map(isinstance, values, kinds)) or "name" not in values[0]:
        raise InputError(problem)
    recipe, seed, figures, parameters, files = values
    return Trained(directory, recipe["name"], seed, figures, parameters, files)


def _finished(output: Path, recipe: Recipe, seed: int) -> Trained:
    found = read_training(output)
    if (found.recipe, found.seed) != (recipe.name, seed):
        raise InputError(
            f"{output} holds {found.recipe} of seed {found.seed}, expected {recipe.name} of seed "
            f"{seed}; choose another --output"
        )
    return found


def _write(task: Task, recipe: Recipe, seed: int, output: Path) -> None:
    """Save next to the output and rename, so that a directory of that name is always whole."""
    beside = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        task.save(beside)
        record: dict[str, Any] = {
            "recipe": asdict(recipe),
            "seed": seed,
            "data": _DATA[recipe.kind],
            "licence": "Apache-2.0",
            "parameters": sum(p.numel() for p in task.module.parameters()),
            "figures": {name: round(value, 6) for name, value in task.figures().items()},
            "versions": {name: version(name) for name in _VERSIONED}
            | {
                "python": platform.python_version(),
                "machine": platform.machine(),
            },
            "files": {
                path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(beside.iterdir())
            },
        }
        (beside / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        beside.chmod(0o755)
        for path in beside.iterdir():
            path.chmod(0o644)
        beside.replace(output)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
