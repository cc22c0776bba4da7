"""One's own module: described by a pass, or made by a function of a file, run when allowed."""

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError, reading
from repalign.files import file_sha256
from repalign.models.loaders.boundary import running
from repalign.models.loaders.families import Family
from repalign.models.loaders.loaded import LoadedModel, Origin
from repalign.models.loaders.loader import Loader
from repalign.models.naming.spec import ModelSpec
from repalign.models.structure.seen import Seen
from repalign.models.views.capture import first_tensor
from repalign.models.views.layers import FINAL, LayerMap, Tap, module_names

if TYPE_CHECKING:
    from PIL.Image import Image

OWN = Family("own", "image", ("mean", "token", "cls", "last"), final_note="what the module returns")
# Sides of the images of noise that a model is looked at with, until it takes one.
_SIDES = (224, 32, 64, 96, 128, 28, 256, 384)


def describe_own(
    module: nn.Module, inputs: Mapping[str, Tensor], version: str | None = None
) -> LoadedModel:
    """Describe a module by a pass over a batch; an input without a name is the only argument."""
    seen = Seen.of(module, lambda: _call_named(module, inputs))
    blocks = seen.blocks(module, (len(next(iter(inputs.values()))),))
    kind = type(module)
    files = {"parameters": tensors_sha256(module.state_dict()).hex()}
    if version:
        files["code"] = version
    return LoadedModel(
        module=module,
        family=OWN,
        layers=LayerMap(blocks, Tap(FINAL, "", "returned"), None, module_names(module)),
        origin=Origin(kind.__qualname__, "own", f"{kind.__module__}.{kind.__qualname__}", files),
        call=_call_named,
    )


def tensors_sha256(tensors: Mapping[str, Tensor]) -> bytes:
    """SHA-256 of tensors with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        plain = tensor.detach().cpu().contiguous()
        digest.update(plain.flatten().view(torch.uint8).numpy().tobytes())
    return digest.digest()


def _call_named(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
    with running(module, Exception):
        returned = module(inputs[""]) if list(inputs) == [""] else module(**inputs)
    return first_tensor(returned)


class OwnPreparation:
    """Runs the function, and checks that every image comes out in the shape of the first."""

    def __init__(self, prepare: Callable[[Any], Any], name: str, first: "Image") -> None:
        self._prepare, self.name = prepare, name
        self.shape: tuple[int, ...] | None = None
        self.shape = self(first).shape

    def __call__(self, image: "Image") -> NDArray[np.float32]:
        """Turn an image into ``(channels, height, width)`` float32."""
        # the user's code, or numpy at what it returns
        with reading(self.name, Exception, failure=ModelError, problem="cannot prepare an image"):
            values = np.asarray(self._prepare(image))
        is_plain = values.ndim == 3 and values.dtype.kind == "f"
        if not is_plain or (self.shape is not None and values.shape != self.shape):
            raise ModelError(
                f"the preprocessing of {self.name} gives {values.dtype} of shape {values.shape}, "
                f"expected floats of shape {self.shape or '(channels, height, width)'}; "
                "let it resize or crop every image to one size"
            )
        return values.astype(np.float32, copy=False)

    def as_dict(self) -> dict[str, object]:
        """The preparation as plain values for a store's spec."""
        assert self.shape is not None
        return {"name": self.name, "shape": list(self.shape)}


class OwnCodeLoader(Loader):
    """A function of a file that returns a module and what turns an image into its input."""

    def load(self, spec: ModelSpec) -> LoadedModel:
        """Run the function, which the caller has allowed.

        Raises ModelError for what it raises, and for anything but a module and a function.
        """
        assert spec.path is not None
        name = f"{spec.path.name}:{spec.name}"
        with _importing(spec.path) as file:
            function = getattr(_module_of(file, name), spec.name, None)
            if not callable(function):
                raise InputError(f"no function {spec.name} in {spec.path.name}; name one of it")
            with reading(name, Exception, failure=ModelError, problem="cannot be run"):
                returned = function()
        if not isinstance(returned, tuple) or len(returned) != 2 or not callable(returned[1]):
            raise ModelError(
                f"{name} returns a {type(returned).__name__}, expected a pair: the module, and a "
                "function from an image of PIL to a tensor (channels, height, width)"
            )
        module, prepare = returned
        if not isinstance(module, nn.Module):
            raise ModelError(f"{name} returns a {type(module).__name__}, expected a module first")
        described, size = _described(module.float().eval(), prepare, name)
        files = {**described.origin.files, spec.path.name: file_sha256(spec.path)}
        origin = replace(described.origin, model=name, loader="own code", files=files)
        return replace(
            described, origin=origin, call=_call_pixels, image_size=size, prepare=prepare
        )


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
            description = describe_own(module, {"": torch.stack([pixels, pixels])})
        except ModelError as error:
            failure = failure or ModelError(f"{name}: {error}")
            continue
        channels, height, width = pixels.shape
        return description, (channels, height, width)
    assert failure is not None
    raise failure


def _call_pixels(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
    with running(module, Exception):
        returned = module(inputs["pixel_values"])
    return first_tensor(returned)


@contextmanager
def _importing(path: Path) -> Iterator[Path]:
    """Let a file import those beside it."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield path.resolve()
    finally:
        sys.path.remove(folder)


def _module_of(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"own_model_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses and pickles look their module up by its name
    sys.modules[spec.name] = module
    with reading(name, Exception, failure=ModelError, problem="cannot be run"):
        spec.loader.exec_module(module)
    return module
