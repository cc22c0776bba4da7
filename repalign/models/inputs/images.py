"""From images to a model's input, resized and cropped by the model's library.

The libraries do the geometry, and bytes are what waits and travels; scaling and normalising is
done here, in one operation on the model's device, by the mean and deviation that they name.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repalign.exceptions import InputError, ModelError, reading
from repalign.limits import MAX_PIXELS
from repalign.models.checkpoints import check_directory, read_json
from repalign.models.encoder import MODEL_ERRORS
from repalign.models.inputs.items import CHECKED, Inputs, Item

if TYPE_CHECKING:
    from PIL.Image import Image

ImageBackend = Literal["pil", "torchvision"]
Size = tuple[int, int]
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
_LARGEST = 8192
_CANONICAL = re.compile(r"canonical([1-9]\d{0,3})")


class StackedImages(Inputs):
    """Images of one size, which are stacked to a batch."""

    same_size = True

    def count_first(self, *, is_pooled: bool) -> int:
        """Return how many first images are checked in batches."""
        return CHECKED

    def default_budget(self, device: str) -> int:
        """Return the images of a batch on a kind of device."""
        if device != "cpu":
            return 512
        height, width = getattr(self, "size", None) or (224, 224)
        return max(1, min(1024, 8 * 224 * 224 // (height * width)))

    def collate(self, items: Sequence[Item]) -> tuple[dict[str, Tensor], None]:
        """Stack prepared images; they have no lengths."""
        return {self.key: torch.from_numpy(np.stack([item.values for item in items]))}, None

    def check_items(self, items: Sequence[Item]) -> list[Item]:
        """Return three images, mirrored ones where there are fewer."""
        mirrored = [replace(item, values=np.flip(item.values, axis=-1)) for item in items]
        turned = [replace(item, values=np.flip(item.values, axis=-2)) for item in items]
        return [*items, *mirrored, *turned][:CHECKED]


@dataclass(frozen=True, eq=False)
class ImageInputs(StackedImages):
    """Resizes, crops at the centre, scales to 0…1 and normalises.

    The orientation that EXIF data suggest is ignored, as timm and transformers do.

    Attributes:
        name: What it is called in a store.
        resize: From an image to bytes ``(channels, height, width)``.
        size: Height and width of every result.
        edges: The size that images are resized to: the length of the shorter edge, or height
            and width; None where they keep their own.
        mean: Of every channel.
        std: Of every channel.
        interpolation: Of the resizing.
        backend: The library that resizes.
        settings: All settings of the library's transform, which are recorded.
    """

    name: str
    resize: Callable[["Image"], NDArray[np.uint8]]
    size: Size
    edges: int | Size | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    backend: ImageBackend
    settings: Mapping[str, object]

    def __post_init__(self) -> None:
        """Refuse sizes and statistics that no image can be prepared by."""
        sides = [*self.size, *([self.edges] if isinstance(self.edges, int) else self.edges or ())]
        if len(self.size) != 2 or not _are_sides(sides):
            raise ModelError(
                f"preprocessing {self.name} gives images of {sides}; expected 1 to {_LARGEST} "
                "pixels a side"
            )
        numbers = [*self.mean, *self.std]
        is_numeric = all(isinstance(x, int | float) and math.isfinite(x) for x in numbers)
        if not is_numeric or not self.mean or 0 in self.std or len(self.mean) != len(self.std):
            raise ModelError(
                f"preprocessing {self.name} has mean {self.mean} and std {self.std}; expected a "
                "number for each channel, and a std that is not zero"
            )

    @property
    def channels(self) -> int:
        """Channels of every result."""
        return len(self.mean)

    def __call__(self, image: "Image") -> NDArray[np.float32]:
        """Turn an image into ``(channels, height, width)`` float32."""
        pixels = self.prepare(image).values.astype(np.float32, order="C")
        scale, shift = self._normalising()
        # in place and in one go: 1/255, minus mean, over std
        pixels *= scale
        pixels -= shift
        return pixels

    def prepare(self, value: Any) -> Item:
        """Resize and crop an image to bytes, a quarter of the size of floats."""
        image = value.convert("L" if self.channels == 1 else "RGB")
        _check_pixels(image.size, self.edges)
        return Item(self.resize(image))

    def finish(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Normalise a batch of bytes on its device."""
        pixels = inputs[self.key]
        scale, shift = (torch.from_numpy(part).to(pixels.device) for part in self._normalising())
        floats = torch.empty(pixels.shape, device=pixels.device)
        return {self.key: floats.copy_(pixels).mul_(scale).sub_(shift)}

    def _normalising(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return factor and shift of every channel: values · factor - shift."""
        mean, std = np.array(self.mean), np.array(self.std)
        scale, shift = (1 / (255 * std)).astype(np.float32), (mean / std).astype(np.float32)
        return scale[:, None, None], shift[:, None, None]

    def as_dict(self) -> dict[str, object]:
        """Return the preprocessing as plain values for a store's spec."""
        return {
            "name": self.name,
            "resize": self.edges,
            "crop": self.size,
            "interpolation": self.interpolation,
            "mean": self.mean,
            "std": self.std,
            "backend": self.backend,
            "exif_orientation": "ignored",
            "scale": "1/255",
        }

    def __str__(self) -> str:
        """Describe the preparation in a line."""
        return (
            f"{self.name}: resize {self.edges}, crop {self.size}, {self.interpolation} by "
            f"{self.backend}, mean {self.mean}, std {self.std}"
        )


def _are_sides(sides: Sequence[object]) -> bool:
    """Return whether values are numbers of pixels that an image may have."""
    return all(type(side) is int and 0 < side <= _LARGEST for side in sides)


def _check_pixels(size: Size, edges: int | Size | None) -> None:
    """Refuse an image whose resizing would make far more pixels than were read."""
    if edges is None:
        return
    width, height = size
    if isinstance(edges, int):
        longer = int(edges * max(size) / min(size))
        target = (edges, longer) if width <= height else (longer, edges)
    else:
        target = (edges[1], edges[0])
    # one direction is resized after the other
    if max(width, target[0]) * max(height, target[1]) > MAX_PIXELS:
        raise InputError(
            f"an image of {width}×{height} becomes one of {target[0]}×{target[1]} pixels; at most "
            f"{MAX_PIXELS} are made: cut it to a less extreme shape"
        )


def by_transforms(
    name: str,
    steps: Sequence[Any],
    size: Size,
    edges: int | Size | None,
    statistics: tuple[tuple[float, ...], tuple[float, ...]],
    backend: ImageBackend,
) -> ImageInputs:
    """Prepare images by transforms of torchvision, of PIL images or of tensors."""
    from torchvision.transforms import PILToTensor

    to_tensor = PILToTensor()
    ordered = [to_tensor, *steps] if backend == "torchvision" else [*steps, to_tensor]

    def resize(image: "Image") -> NDArray[np.uint8]:
        value: Any = image
        for step in ordered:
            value = step(value)
        return value.numpy()

    interpolation = getattr(steps[0], "interpolation", None)
    label = str(getattr(interpolation, "value", interpolation))
    settings = {"steps": ", ".join(map(str, steps))}
    return ImageInputs(name, resize, size, edges, *statistics, label, backend, settings)


def parse_canonical(text: str, channels: int, backend: ImageBackend = "pil") -> ImageInputs | None:
    """Parse ``canonicalN``: shorter edge to N/0.875, bicubic, crop N, ImageNet normalisation.

    Returns None for any other text, which then names a model whose own preprocessing is meant.
    """
    match = _CANONICAL.fullmatch(text)
    if match is None:
        return None
    side = int(match[1])
    statistics = _IMAGENET if channels == 3 else ((0.5,) * channels, (0.5,) * channels)
    edge = math.floor(side / 0.875)
    return by_transforms(
        text, _shorter_edge(edge, (side, side)), (side, side), edge, statistics, backend
    )


def _shorter_edge(edges: int | Size, size: Size, interpolation: str = "bicubic") -> list[Any]:
    """Return transforms that resize and crop at the centre."""
    from torchvision.transforms import CenterCrop, InterpolationMode, Resize

    return [
        Resize(edges, interpolation=InterpolationMode(interpolation), antialias=True),
        CenterCrop(size),
    ]


def image_inputs_of_timm(
    config: Mapping[str, Any], name: str, backend: ImageBackend = "pil"
) -> ImageInputs:
    """Prepare images by the evaluation transform of a timm ``pretrained_cfg``."""
    from timm import data as timm_data

    resolve_data_config: Any = vars(timm_data)["resolve_data_config"]
    create_transform: Any = vars(timm_data)["create_transform"]
    with reading(name, *MODEL_ERRORS, failure=ModelError, problem="has no usable preprocessing"):
        data = resolve_data_config({}, pretrained_cfg=dict(config))
        channels, *size = data["input_size"]
        transform = create_transform(**data, is_training=False, normalize=False)
        steps = transform.transforms[:-1]  # the last one makes a tensor
        edges = getattr(steps[0], "size", None)
        mean, std = tuple(data["mean"]), tuple(data["std"])
    if channels == 1:
        mean, std = mean[:1], std[:1]
    edges = tuple(edges) if isinstance(edges, list | tuple) else edges
    return by_transforms(name, steps, tuple(size), edges, (mean, std), backend)


def image_inputs_of_torchvision(
    architecture: str, name: str, backend: ImageBackend = "pil"
) -> ImageInputs:
    """Prepare images by the transform that was published with weights of torchvision."""
    from torchvision.models import get_model_weights

    # a name that torchvision does not have, or one without published weights
    with reading(name, AttributeError, KeyError, ValueError, problem="has no transform"):
        published = get_model_weights(architecture).DEFAULT.transforms()
    side, (edge,) = published.crop_size[0], published.resize_size
    steps = _shorter_edge(edge, (side, side), published.interpolation.value)
    statistics = tuple(published.mean), tuple(published.std)
    return by_transforms(name, steps, (side, side), edge, statistics, backend)


def image_inputs_of_open_clip(
    config: Mapping[str, Any], name: str, size: Size, backend: ImageBackend = "pil"
) -> ImageInputs:
    """Prepare images as open_clip's evaluation does.

    Raises ModelError for other ways of resizing.
    """
    mode = config.get("resize_mode") or "shortest"
    if mode not in ("shortest", "squash") or (mode == "shortest" and size[0] != size[1]):
        raise ModelError(f"{name} resizes by mode {mode!r}, which is not supported; use canonical")
    edges = size[0] if mode == "shortest" else size
    with reading(name, *MODEL_ERRORS, failure=ModelError, problem="has no usable preprocessing"):
        steps = _shorter_edge(edges, size, config.get("interpolation") or "bicubic")
        statistics = tuple(config.get("mean") or _CLIP[0]), tuple(config.get("std") or _CLIP[1])
    return by_transforms(name, steps, size, edges, statistics, backend)


def image_inputs_of_transformers(
    directory: Path,
    name: str,
    image_size: tuple[int, int, int],
    backend: ImageBackend = "pil",
) -> ImageInputs:
    """Prepare images by the image processor in a directory.

    Raises ModelError when there is none, or one that does more than resize and normalise.
    """
    from PIL import Image
    from transformers import AutoImageProcessor

    library: Any = AutoImageProcessor
    path = directory / "preprocessor_config.json"
    if not path.exists():
        raise ModelError(
            f"{name} comes without {path.name}; say how images are prepared, for instance "
            f"--preprocess canonical{image_size[1]}"
        )
    check_directory(directory)
    if "auto_map" in read_json(path):
        raise ModelError(f"the image processor of {name} wants to run its own code; refused")
    problem = "its image processor is not supported, use canonical224"
    with reading(name, *MODEL_ERRORS, failure=ModelError, problem=problem):
        processor: Any = library.from_pretrained(
            directory, backend=backend, local_files_only=True, trust_remote_code=False
        )

    def resize(image: Image.Image) -> NDArray[np.uint8]:
        with reading(name, *MODEL_ERRORS, failure=ModelError, problem=problem):
            output = processor(image, do_rescale=False, do_normalize=False, return_tensors="np")
            return np.asarray(output["pixel_values"][0])

    if not getattr(processor, "do_rescale", True):
        raise ModelError(f"{name} does not scale pixels to 0…1, which is not supported")
    mean, std = (0.0,) * image_size[0], (1.0,) * image_size[0]
    if getattr(processor, "do_normalize", True):
        mean, std = _statistics(processor.image_mean), _statistics(processor.image_std)
    sides = dict(getattr(processor, "size", None) or {})
    crop = dict(getattr(processor, "crop_size", None) or {})
    if not _are_sides([side for side in (*sides.values(), *crop.values()) if side is not None]):
        raise ModelError(f"{name}: {problem} (sizes {sides} and {crop} in pixels)")
    edges = sides.get("shortest_edge")
    if edges is None and "height" in sides and "width" in sides:
        edges = sides["height"], sides["width"]
    mode = "L" if image_size[0] == 1 else "RGB"
    blank, other = (resize(Image.new(mode, sides)) for sides in ((64, 48), (48, 64)))
    if blank.dtype != np.uint8 or blank.ndim != 3 or blank.shape != other.shape:
        shapes = f"{blank.dtype} of shapes {blank.shape} and {other.shape}"
        raise ModelError(f"{name}: {problem} (it gives {shapes} for images of two sizes)")
    plain = (bool, int, float, str, list, tuple, dict)
    settings = {"class": type(processor).__name__} | {
        key: value for key, value in processor.to_dict().items() if isinstance(value, plain)
    }
    size = blank.shape[1], blank.shape[2]
    resized = edges if getattr(processor, "do_resize", True) else None
    number = getattr(processor, "resample", None)
    label = Image.Resampling(number).name.lower() if isinstance(number, int) else str(number)
    return ImageInputs(name, resize, size, resized, mean, std, label, backend, settings)


def _statistics(value: Any) -> tuple[float, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)
