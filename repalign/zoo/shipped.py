"""The trained models that come with the package."""

from pathlib import Path

from repalign.exceptions import InputError
from repalign.zoo.train import Trained, read_training

WEIGHTS_FOLDER = Path(__file__).with_name("weights")


def shipped_names() -> tuple[str, ...]:
    """Return the names of all shipped models, recipe and seed, in order."""
    return tuple(sorted(path.name for path in WEIGHTS_FOLDER.iterdir() if path.is_dir()))


def shipped_path(name: str) -> Path:
    """Return the directory of a shipped model, ready for ``repalign extract``.

    Raises InputError for an unknown name.
    """
    if name not in shipped_names():
        raise InputError(f"no shipped model {name!r}; expected {', '.join(shipped_names())}")
    return WEIGHTS_FOLDER / name


def shipped_models() -> tuple[Trained, ...]:
    """Return what is recorded of every shipped model."""
    return tuple(read_training(shipped_path(name)) for name in shipped_names())
