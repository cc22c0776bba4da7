"""Modules of the user, also those that a function of a file makes."""

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError, reading
from repalign.files import file_sha256
from repalign.models.capture import first_tensor
from repalign.models.encoder import FINAL, Encoder, LayerMap, Origin, Tap, module_names, running
from repalign.models.families import CUSTOM
from repalign.models.inputs.images import StackedImages
from repalign.models.inputs.items import Item
from repalign.models.names import ModelName
from repalign.models.trace import trace_forward

# Sides of the images of noise that a module is tried with, until it takes one.
_SIDES = (224, 32, 64, 96, 128, 28, 256, 384)


def encoder_from_module(
    module: nn.Module, inputs: Mapping[str, Tensor], version: str | None = None
) -> Encoder:
    """Describe a module by a pass over a batch.

    An input without a name is the only argument.
    """
    trace = trace_forward(module, lambda: _forward(module, inputs))
    blocks = trace.blocks((len(next(iter(inputs.values()))),))
    kind = type(module)
    files = {"parameters": tensors_sha256(module.state_dict()).hex()}
    if version:
        files["code"] = version
    return Encoder(
        module=module,
        family=CUSTOM,
        layers=LayerMap(blocks, Tap(FINAL, "", "returned"), None, module_names(module)),
        origin=Origin(kind.__qualname__, "own", f"{kind.__module__}.{kind.__qualname__}", files),
        forward=_forward,
    )


def tensors_sha256(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the SHA-256 of tensors with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        plain = tensor.detach().cpu().contiguous()
        digest.update(plain.flatten().view(torch.uint8).numpy().tobytes())
    return digest.digest()


def _forward(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
    with running(module, Exception):
        returned = module(inputs[""]) if list(inputs) == [""] else module(**inputs)
    return first_tensor(returned)


@dataclass(eq=False)
class CustomImages(StackedImages):
    """A function of the user from an image to a tensor.

    Every result has the shape of the first.
    """

    function: Callable[[Any], Any]
    name: str
    shape: tuple[int, ...] | None = None

    @property
    def size(self) -> tuple[int, ...] | None:
        """Height and width of every result, None before the first."""
        return None if self.shape is None else self.shape[1:]

    def prepare(self, value: Any) -> Item:
        """Turn an image into ``(channels, height, width)`` float32."""
        # the user's code, or numpy at what it returns
        with reading(self.name, Exception, failure=ModelError, problem="cannot prepare an image"):
            values = np.asarray(self.function(value))
        is_plain = values.ndim == 3 and values.dtype.kind == "f"
        if not is_plain or (self.shape is not None and values.shape != self.shape):
            raise ModelError(
                f"the preprocessing of {self.name} gives {values.dtype} of shape {values.shape}, "
                f"expected floats of shape {self.shape or '(channels, height, width)'}; "
                "let it resize or crop every image to one size"
            )
        self.shape = values.shape
        return Item(values.astype(np.float32, copy=False))

    def as_dict(self) -> dict[str, object]:
        """Return the preparation as plain values for a store's spec."""
        return {"name": self.name, "shape": list(self.shape or ())}

    def __str__(self) -> str:
        """Describe the preparation in a line."""
        return f"images by the function of {self.name}"


def load_function(name: ModelName) -> Encoder:
    """Run a function that returns a module and a function of images.

    The caller has allowed it.

    Raises ModelError for what it raises, and for anything but such a pair.
    """
    assert name.path is not None
    label = f"{name.path.name}:{name.name}"
    with _import_path(name.path) as file:
        function = getattr(_import_file(file, label), name.name, None)
        if not callable(function):
            raise InputError(f"no function {name.name} in {name.path.name}; name one of that file")
        with reading(label, Exception, failure=ModelError, problem="cannot be run"):
            returned = function()
    if not isinstance(returned, tuple) or len(returned) != 2 or not callable(returned[1]):
        raise ModelError(
            f"{label} returns a {type(returned).__name__}, expected a pair: the module, and a "
            "function from an image of PIL to a tensor (channels, height, width)"
        )
    module, prepare = returned
    if not isinstance(module, nn.Module):
        raise ModelError(f"{label} returns a {type(module).__name__}, expected a module first")
    encoder, size = _try_sizes(module.float().eval(), prepare, label)
    files = {**encoder.origin.files, name.path.name: file_sha256(name.path)}
    origin = replace(encoder.origin, model=label, loader="own code", files=files)

    def image_inputs(_backend: str) -> Any:
        return CustomImages(prepare, label)

    return replace(
        encoder,
        origin=origin,
        forward=_forward_pixels,
        image_size=size,
        image_inputs=image_inputs,
    )


def _forward_pixels(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
    return _forward(module, {"": inputs["pixel_values"]})


def _try_sizes(
    module: nn.Module, prepare: Callable[[Any], Any], name: str
) -> tuple[Encoder, tuple[int, int, int]]:
    """Describe a module by a pass over noise of a size that it takes."""
    from PIL.Image import fromarray

    rng, failure = np.random.default_rng(0), None
    for side in _SIDES:
        image = fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8))
        try:
            pixels = torch.from_numpy(CustomImages(prepare, name).prepare(image).values.copy())
            encoder = encoder_from_module(module, {"": torch.stack([pixels, pixels])})
        except ModelError as error:
            failure = failure or ModelError(f"{name}: {error}")
            continue
        channels, height, width = pixels.shape
        return encoder, (channels, height, width)
    assert failure is not None
    raise failure


@contextmanager
def _import_path(path: Path) -> Iterator[Path]:
    """Make the folder of a file importable."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield path.resolve()
    finally:
        sys.path.remove(folder)


def _import_file(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"own_model_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses and pickles look their module up by its name
    sys.modules[spec.name] = module
    with reading(name, Exception, failure=ModelError, problem="cannot be run"):
        spec.loader.exec_module(module)
    return module
