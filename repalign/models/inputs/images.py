"""One explicit way from an image to a model's input, the same for both models of a pair."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError, ModelError
from repalign.limits import MAX_PIXELS

if TYPE_CHECKING:
    from PIL.Image import Image

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
ImageBackend = Literal["pil", "torchvision"]
_PIL_NUMBER: dict[Interpolation, int] = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
_LARGEST = 8192
_DEFAULTED = (
    "resample",
    "size",
    "crop_size",
    "crop_pct",
    "do_resize",
    "do_center_crop",
    "do_rescale",
    "do_normalize",
    "image_mean",
    "image_std",
)
# Image processors of transformers that resize, then crop at the centre if they crop at all.
_RESIZE_THEN_CROP = ("ViT", "Deit", "DeiT", "Bit", "CLIP", "SiglipImage", "Beit")
_CANONICAL = re.compile(r"canonical([1-9]\d{0,3})")


@dataclass(frozen=True)
class ImagePreprocess:
    """Resize, crop at the centre, scale to 0…1, normalise.

    ``resize`` is the length of the shorter edge, or ``(height, width)`` to squash to, or None;
    ``crop`` is ``(height, width)`` or None. ``mean`` and ``std`` have one value per channel.
    ``odd_crop`` says where a crop goes that cannot be centred exactly: timm rounds half a pixel
    to even, transformers down. ``backend`` is the library that resizes: timm, torchvision and the
    image processors of transformers named ``…Pil`` take PIL; the default ones of transformers 5
    take torchvision, whose pixels differ by some hundredths where an image is made smaller.
    The orientation that EXIF data suggest is ignored, as timm and transformers do.
    """

    name: str
    resize: int | tuple[int, int] | None
    crop: tuple[int, int] | None
    interpolation: Interpolation
    mean: tuple[float, ...]
    std: tuple[float, ...]
    odd_crop: Literal["even", "down"] = "even"
    backend: ImageBackend = "pil"

    def __post_init__(self) -> None:
        """Refuse sizes and statistics that no image can be prepared by."""
        for what, size in (("resize", self.resize), ("crop", self.crop)):
            sides = size if isinstance(size, tuple) else () if size is None else (size,)
            if not all(isinstance(side, int) and 0 < side <= _LARGEST for side in sides):
                raise ModelError(
                    f"preprocessing {self.name} says {what} {size}; expected 1 to {_LARGEST} pixels"
                )
        numbers = (*self.mean, *self.std)
        if not all(math.isfinite(x) for x in numbers) or 0 in self.std or not self.mean:
            raise ModelError(
                f"preprocessing {self.name} says mean {self.mean} and std {self.std}; expected "
                "numbers, and a std that is not zero"
            )
        if len(self.mean) != len(self.std):
            raise ModelError(f"preprocessing {self.name} has a mean and a std of other lengths")

    @property
    def output_size(self) -> tuple[int, int] | None:
        """Height and width of every result, None when it depends on the image."""
        if self.crop is not None:
            return self.crop
        return self.resize if isinstance(self.resize, tuple) else None

    def __call__(self, image: "Image") -> NDArray[np.float32]:
        """Turn an image into ``(channels, height, width)`` float32."""
        pixels = self.bytes_of(image).transpose(2, 0, 1).astype(np.float32, order="C")
        scale, shift = self.normalising()
        # in place and in one go: 1/255, minus mean, over std
        pixels *= scale
        pixels -= shift
        return pixels

    def normalising(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Factor and shift of every channel, ``(channels, 1, 1)``: values · factor − shift."""
        mean, std = np.array(self.mean), np.array(self.std)
        scale, shift = (1 / (255 * std)).astype(np.float32), (mean / std).astype(np.float32)
        return scale[:, None, None], shift[:, None, None]

    def bytes_of(self, image: "Image") -> NDArray[np.uint8]:
        """Resize and crop an image: ``(height, width, channels)``, before normalisation."""
        image = image.convert("L" if len(self.mean) == 1 else "RGB")
        if self.resize is not None:
            image = _resize(image, self.resize, self.interpolation, self.backend)
        if self.crop is not None:
            image = _crop(image, self.crop, self.odd_crop)
        return np.atleast_3d(np.asarray(image))

    def as_dict(self) -> dict[str, object]:
        """The preprocessing as plain values for a store's spec."""
        return {**asdict(self), "exif_orientation": "ignored", "scale": "1/255"}


def parse_preprocess(text: str, channels: int = 3) -> ImagePreprocess | None:
    """Parse ``canonicalN``: shorter edge to N/0.875, bicubic, crop N, ImageNet normalisation.

    Returns None for any other text, which then names a model whose own preprocessing is meant.
    """
    match = _CANONICAL.fullmatch(text)
    if match is None:
        return None
    size = int(match[1])
    mean, std = _IMAGENET if channels == 3 else ((0.5,) * channels, (0.5,) * channels)
    return ImagePreprocess(text, math.floor(size / 0.875), (size, size), "bicubic", mean, std)


def as_list(value: object) -> list[Any]:
    """Return a list, and any other value as its only member."""
    return list(value) if isinstance(value, list | tuple) else [value]


def image_size_in(config: Mapping[str, Any], name: str) -> tuple[int, int, int]:
    """Return channels, height and width of a config, by default 3×224×224.

    Raises ModelError for anything but three sizes.
    """
    sizes = as_list(config.get("input_size") or (3, 224, 224))
    if len(sizes) != 3 or not all(_is_size(size) for size in sizes):
        raise ModelError(f"{name} takes images of {sizes}; expected channels, height and width")
    channels, height, width = sizes
    return channels, height, width


def _is_size(value: object) -> bool:
    return type(value) is int and 0 < value <= _LARGEST


def _fraction(config: Mapping[str, Any], name: str) -> float:
    fraction = config.get("crop_pct") or 0.875
    if not isinstance(fraction, int | float) or not 0 < fraction <= 1e3:
        raise ModelError(f"preprocessing {name} says crop_pct {fraction!r}; expected 0 to 1")
    return float(fraction)


def _statistics(config: Mapping[str, Any], key: str, name: str) -> tuple[float, ...] | None:
    """Return a mean or deviation for each channel, None where a config says none."""
    value = config.get(key)
    if not value:
        return None
    numbers = as_list(value)
    if not all(isinstance(number, int | float) for number in numbers):
        raise ModelError(f"preprocessing {name} says {key} {value!r}; expected numbers")
    return tuple(numbers)


def preprocess_of_timm(config: Mapping[str, Any], name: str) -> ImagePreprocess:
    """Preprocessing of a timm ``pretrained_cfg``, as timm's evaluation transform does it.

    Raises ModelError for crop modes that are not supported.
    """
    channels, height, width = image_size_in(config, name)
    fraction = _fraction(config, name)
    mode = config.get("crop_mode") or "center"
    scaled = (math.floor(height / fraction), math.floor(width / fraction))
    if mode not in ("center", "squash") or (mode == "center" and scaled[0] != scaled[1]):
        raise ModelError(f"{name} crops by mode {mode!r}, which is not supported; use canonical224")
    mean = _statistics(config, "mean", name) or _IMAGENET[0]
    std = _statistics(config, "std", name) or _IMAGENET[1]
    if channels == 1 and len(mean) != 1:
        mean, std = mean[:1], std[:1]
    return ImagePreprocess(
        name=name,
        resize=scaled[0] if mode == "center" else scaled,
        crop=(height, width),
        interpolation=_interpolation(config.get("interpolation") or "bicubic", name),
        mean=mean,
        std=std,
    )


def preprocess_of_transformers(
    config: Mapping[str, Any], name: str, model_type: object = None
) -> ImagePreprocess:
    """Preprocessing of a ``preprocessor_config.json``, as its image processor does it.

    Old files do not name the processor; it is then the one of the model type.

    Raises ModelError for processors that are not supported.
    """
    kind = str(
        config.get("image_processor_type")
        or config.get("feature_extractor_type")
        or _processor_of(model_type)
    )
    config = {**_defaults(kind), **config}
    numbers = {number: label for label, number in _PIL_NUMBER.items()}
    resample = config.get("resample", 2)
    if not isinstance(resample, int) or resample not in numbers:
        raise ModelError(f"{name} resizes by the unknown resample number {resample}")
    if not config.get("do_rescale", True):
        raise ModelError(f"{name} does not scale pixels to 0…1, which is not supported")
    resize, crop = _transformers_geometry(config, kind, name)
    normalise = config.get("do_normalize", True)
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    if normalise:
        mean = _statistics(config, "image_mean", name) or (0.5, 0.5, 0.5)
        std = _statistics(config, "image_std", name) or (0.5, 0.5, 0.5)
    return ImagePreprocess(name, resize, crop, numbers[resample], mean, std, odd_crop="down")


def _processor_of(model_type: object) -> str:
    """Return the image processor of a model type of transformers, empty where there is none."""
    from transformers.models.auto import image_processing_auto

    processors: Any = vars(image_processing_auto)["IMAGE_PROCESSOR_MAPPING_NAMES"]
    names = processors.get(str(model_type)) or ()
    # a tuple in older releases, a dictionary by backend in newer ones
    names = names.values() if isinstance(names, Mapping) else names
    return next((str(name) for name in names if name), "").removesuffix("Pil")


def _defaults(kind: str) -> dict[str, Any]:
    """Return what an image processor does where its config says nothing."""
    import transformers

    name = kind.removesuffix("Fast").replace("FeatureExtractor", "ImageProcessor")
    processor = getattr(transformers, f"{name}Pil", None)
    told = {key: getattr(processor, key, None) for key in _DEFAULTED}
    return {key: value for key, value in told.items() if value is not None}


def preprocess_of_open_clip(
    config: Mapping[str, Any], size: Sequence[int], name: str
) -> ImagePreprocess:
    """Preprocessing of open_clip's evaluation: the shorter edge and a crop, or squashed.

    Raises ModelError for other ways of resizing.
    """
    mode, (height, width) = config.get("resize_mode") or "shortest", size
    if mode not in ("shortest", "squash") or (mode == "shortest" and height != width):
        raise ModelError(f"{name} resizes by mode {mode!r}, which is not supported; use canonical")
    return ImagePreprocess(
        name=name,
        resize=height if mode == "shortest" else (height, width),
        crop=(height, width),
        interpolation=_interpolation(config.get("interpolation") or "bicubic", name),
        mean=_statistics(config, "mean", name) or _CLIP[0],
        std=_statistics(config, "std", name) or _CLIP[1],
    )


def preprocess_of_torchvision(
    name: str,
    *,
    resize: int,
    crop: tuple[int, int],
    interpolation: str,
    normalise: tuple[tuple[float, ...], tuple[float, ...]],
) -> ImagePreprocess:
    """Preprocessing of a torchvision weights entry: shorter edge, crop at the centre, normalise."""
    mean, std = normalise
    return ImagePreprocess(name, resize, crop, _interpolation(interpolation, name), mean, std)


def _transformers_geometry(
    config: Mapping[str, Any], kind: str, name: str
) -> tuple[int | tuple[int, int] | None, tuple[int, int] | None]:
    if not config.get("do_resize", True):
        return None, None
    size = _size_in(config, "size", 224, name)
    if kind.startswith("ConvNext"):
        edge = size if isinstance(size, int) else size[0]
        if edge >= 384:
            return (edge, edge), None
        return int(edge / _fraction(config, name)), (edge, edge)
    if kind.startswith(_RESIZE_THEN_CROP):
        crop = None
        if config.get("do_center_crop") and config.get("crop_size") is not None:
            sides = _size_in(config, "crop_size", None, name)
            crop = (sides, sides) if isinstance(sides, int) else sides
        if isinstance(size, int) and not kind.startswith(("Bit", "CLIP")):
            size = (size, size)
        return size, crop
    raise ModelError(
        f"{name} uses the image processor {kind!r}, which is not supported; use canonical224"
    )


def _size_in(
    config: Mapping[str, Any], key: str, default: int | None, name: str
) -> int | tuple[int, int]:
    """Return the length of the shorter edge, or height and width.

    Raises ModelError for anything else.
    """
    value = config.get(key, default)
    sides = [value]
    if isinstance(value, Mapping):
        is_both = "height" in value
        keys = ("height", "width") if is_both else ("shortest_edge",)
        sides = [value.get(side) for side in keys]
    elif isinstance(value, list | tuple):
        sides = list(value)
    if not 1 <= len(sides) <= 2 or not all(_is_size(side) for side in sides):
        raise ModelError(f"preprocessing {name} says {key} {value!r}; expected sizes in pixels")
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


def _interpolation(text: str, name: str) -> Interpolation:
    for known in _PIL_NUMBER:
        if text == known:
            return known
    raise InputError(f"{name} resizes by {text!r}; expected {', '.join(_PIL_NUMBER)}")


def _resize(
    image: "Image",
    size: int | tuple[int, int],
    interpolation: Interpolation,
    backend: ImageBackend,
) -> "Image":
    from PIL.Image import Resampling

    width, height = image.size
    if isinstance(size, int):
        # the longer edge is cut to whole pixels, as torchvision does
        longer = int(size * max(width, height) / min(width, height))
        target = (size, longer) if width <= height else (longer, size)
    else:
        target = (size[1], size[0])
    if target == image.size:
        return image
    # one direction is resized after the other
    if max(width, target[0]) * max(height, target[1]) > MAX_PIXELS:
        raise InputError(
            f"an image of {width}×{height} becomes one of {target[0]}×{target[1]} pixels; at most "
            f"{MAX_PIXELS} are made: cut it to a less extreme shape"
        )
    if backend == "torchvision":
        return _resize_by_torchvision(image, target, interpolation)
    return image.resize(target, Resampling(_PIL_NUMBER[interpolation]))


def _resize_by_torchvision(
    image: "Image", target: tuple[int, int], interpolation: Interpolation
) -> "Image":
    import torch
    from PIL.Image import fromarray
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2.functional import resize

    # a copy, since PIL's memory may not be written to, and channels first
    pixels = torch.from_numpy(np.atleast_3d(np.array(image))).permute(2, 0, 1)
    made = resize(pixels, [target[1], target[0]], InterpolationMode(interpolation), antialias=True)
    return fromarray(made.permute(1, 2, 0).numpy().squeeze())


def _crop(image: "Image", size: tuple[int, int], odd: Literal["even", "down"]) -> "Image":
    height, width = size
    if image.width < width or image.height < height:
        raise InputError(
            f"an image of {image.width}×{image.height} cannot be cropped to {width}×{height}"
        )
    halved = (image.width - width) / 2, (image.height - height) / 2
    left, top = (round(x) if odd == "even" else math.floor(x) for x in halved)
    return image.crop((left, top, left + width, top + height))
