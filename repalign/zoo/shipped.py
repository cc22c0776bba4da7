"""The trained models that come with the package."""

from pathlib import Path

from repalign.exceptions import InputError
from repalign.models.names import WEIGHTS_FOLDER as WEIGHTS_FOLDER
from repalign.models.names import shipped_names as shipped_names
from repalign.zoo.train import Trained, read_training


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
