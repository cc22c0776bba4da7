"""One's own module by the function of a file that makes it: code of the user, run when allowed."""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError
from repalign.files import file_sha256
from repalign.models.inputs.own import OwnPreparation
from repalign.models.loaders.boundary import third_party
from repalign.models.loaders.loaded import LoadedModel
from repalign.models.loaders.loader import Loader
from repalign.models.loaders.own import describe_own
from repalign.models.naming.spec import ModelSpec
from repalign.models.views.capture import first_tensor

# Sides of the images of noise that a model is looked at with, until it takes one.
_SIDES = (224, 32, 64, 96, 128, 28, 256, 384)


class OwnCodeLoader(Loader):
    """A function of a file that returns a module and what turns an image into its input."""

    def load(self, spec: ModelSpec) -> LoadedModel:
        """Run the function, which the caller has allowed.

        Raises ModelError for what it raises, and for anything but a module and a function.
        """
        assert spec.path is not None
        name = f"{spec.path.name}:{spec.name}"
        with _importing(spec.path) as file, third_party(f"{name} cannot be run"):
            function = getattr(_module_of(file), spec.name, None)
            if not callable(function):
                raise InputError(f"no function {spec.name} in {spec.path.name}; name one of it")
            made = function()
        if not (isinstance(made, tuple) and len(made) == 2 and callable(made[1])):
            raise ModelError(
                f"{name} returns a {type(made).__name__}, expected a pair: the module, and a "
                "function from an image of PIL to a tensor (channels, height, width)"
            )
        module, prepare = made
        if not isinstance(module, nn.Module):
            raise ModelError(f"{name} returns a {type(module).__name__}, expected a module first")
        described, size = _described(module.float().eval(), prepare, name)
        files = {**described.origin.files, spec.path.name: file_sha256(spec.path)}
        origin = replace(described.origin, model=name, loader="own code", files=files)
        return replace(described, origin=origin, call=_call, image_size=size, prepare=prepare)


LOADER = OwnCodeLoader()


def _described(
    module: nn.Module, prepare: Callable[[Any], Any], name: str
) -> tuple[LoadedModel, tuple[int, int, int]]:
    """Describe a module by a pass over two images of noise of some size that it takes."""
    from PIL.Image import fromarray

    rng, failure = np.random.default_rng(0), None
    for side in _SIDES:
        image = fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8))
        try:
            pixels = torch.from_numpy(OwnPreparation(prepare, name, image)(image).copy())
            with third_party(f"{name} cannot take an image"):
                found = describe_own(module, {"": torch.stack([pixels, pixels])})
        except ModelError as error:
            failure = failure or error
            continue
        channels, height, width = pixels.shape
        return found, (channels, height, width)
    assert failure is not None
    raise failure


def _call(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
    return first_tensor(module(inputs["pixel_values"]))


@contextmanager
def _importing(path: Path) -> Iterator[Path]:
    """Let a file import those beside it."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield path.resolve()
    finally:
        sys.path.remove(folder)


def _module_of(path: Path) -> Any:
    found = importlib.util.spec_from_file_location(f"own_model_{path.stem}", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    # dataclasses and pickles look their module up by its name
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module
