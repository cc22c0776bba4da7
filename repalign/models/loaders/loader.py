"""What a loader does, and how one is found for a name or a path."""

import importlib
from pathlib import Path

from repalign.exceptions import InputError
from repalign.models.inputs.images import ImagePreprocess
from repalign.models.loaders.loaded import LoadedModel
from repalign.models.naming.loaders import LOADERS
from repalign.models.naming.spec import ModelSpec


class Loader:
    """Loads the models of one library or format; what it does not do it refuses."""

    def load(self, spec: ModelSpec) -> LoadedModel:
        """Load a model by its name.

        Raises InputError for an unknown name, ModelError for weights that do not fit.
        """
        raise InputError(f"{spec} names no model that can be loaded")

    def claims(self, path: Path) -> bool:
        """Whether a directory or file is in a format of this loader."""
        return False

    def load_path(
        self, path: Path, name: str, revision: str | None = None, part: str | None = None
    ) -> LoadedModel:
        """Load a directory or file that this loader claims; ``name`` is recorded.

        ``part`` is the encoder that is meant of a model with several.

        Raises ModelError when it cannot be used.
        """
        raise InputError(f"{name} cannot be loaded from its path")

    def own_preprocess(self, model: LoadedModel) -> ImagePreprocess:
        """Return the preprocessing that belongs to a model of this loader.

        Raises ModelError when there is none.
        """
        raise InputError(f"{model.origin.model} takes no images")

    def named_preprocess(self, spec: ModelSpec) -> ImagePreprocess:
        """Return the preprocessing of a model that is only named.

        Raises InputError when there is none.
        """
        raise InputError(f"no preprocessing in {str(spec)!r}; expected a directory, timm: or hf:")

    def preprocess_in(self, directory: Path) -> ImagePreprocess:
        """Return the preprocessing in a directory that this loader claims.

        Raises ModelError when it cannot be used.
        """
        raise InputError(f"no preprocessing in {directory.name}")


def refuse_part(name: str, part: str | None) -> None:
    """Refuse the choice of an encoder of a model that has one.

    Raises InputError for any choice.
    """
    if part is not None:
        raise InputError(f"{name} holds one encoder; leave out ::{part}")


def loader_of(name: str) -> Loader:
    """Return the loader of that name in ``LOADERS``."""
    found: Loader = importlib.import_module(LOADERS[name].module).LOADER
    return found


def loader_of_model(model: LoadedModel) -> Loader:
    """Return the loader that a model came from, by what is recorded of it."""
    wanted = model.origin.loader
    names = {entry.recorded or entry.name: entry.name for entry in LOADERS.values()}
    return loader_of(names[wanted])


def claiming_loader(path: Path) -> Loader | None:
    """Return the first loader that claims a directory or file."""
    return next((found for found in map(loader_of, LOADERS) if found.claims(path)), None)
