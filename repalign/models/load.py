"""Encoders by their names, of any library, and the preparation of their images."""

from pathlib import Path
from typing import Any

import torch

from repalign.exceptions import InputError, ModelError, reading
from repalign.models import custom, hf, open_clip, sentence, timm, torchvision
from repalign.models.checkpoints import check_directory, fetch_repository, mapping_in, read_json
from repalign.models.encoder import Encoder
from repalign.models.inputs.audio import load_audio_inputs
from repalign.models.inputs.images import (
    ImageBackend,
    ImageInputs,
    StackedImages,
    image_inputs_of_timm,
    image_inputs_of_torchvision,
    image_inputs_of_transformers,
    parse_canonical,
)
from repalign.models.inputs.items import Inputs
from repalign.models.inputs.text import load_text_inputs
from repalign.models.names import CODE, LOCAL, ModelName, parse_model, resolve_name

WEIGHTS = {"fp32": torch.float32, "bf16": torch.bfloat16}
_WEIGHTS_ENDINGS = (".safetensors", ".pth", ".pt", ".bin", ".th")


def load_encoder(name: str, *, trust_code: bool = False, weights: str = "fp32") -> Encoder:
    """Load a model by its name or preset, in eval mode.

    Call ``prepare_environment`` before the first load of a process to honour offline mode.

    ``trust_code`` allows a name that is a function of a file, which is run. ``weights`` is the
    type in which they are held, fp32 or bf16; transformers loads them in it.

    Raises InputError for names that mean nothing, ModelError for checkpoints that cannot be used.
    """
    text, _ = resolve_name(name)
    parsed = parse_model(text)
    if parsed.loader == CODE and not trust_code:
        raise InputError(
            f"{name} would run the code of that file; if you trust it, allow it with --trust-code"
        )
    dtype = WEIGHTS[weights]
    with reading(name):
        encoder = _load(parsed, dtype)
    if encoder.origin.loader != "transformers":
        encoder.module.to(dtype)
    return encoder


def _load(name: ModelName, dtype: torch.dtype) -> Encoder:
    if name.loader == "hf":
        directory = fetch_repository(name.name, name.revision)
        return _load_directory(directory, f"hf:{name.name}", name, dtype)
    if name.loader == LOCAL:
        assert name.path is not None
        label = name.path.resolve().name
        if name.path.is_dir():
            return _load_directory(name.path, label, name, dtype)
        return _load_file(name.path, label, name.part)
    _refuse_part(f"{name.loader}:{name.name}", name.part)
    if name.loader == "timm":
        return timm.load_architecture(name)
    if name.loader == "torchvision":
        return torchvision.load_architecture(name)
    if name.loader == "mae":
        assert name.path is not None
        return timm.load_mae(name.path, f"mae:{name.path.name}")
    return custom.load_function(name)


def _load_directory(path: Path, label: str, name: ModelName, dtype: torch.dtype) -> Encoder:
    """Load a directory in the format that its files tell."""
    check_directory(path)
    if (path / sentence.MODULES).is_file():
        _refuse_part(label, name.part)
        return sentence.load_directory(path, label, name.revision)
    if (path / open_clip.CONFIG).is_file() and not (path / "config.json").is_file():
        return open_clip.load_directory(path, label, name.revision, name.part)
    config = read_json(path / "config.json")
    if is_timm(config):
        _refuse_part(label, name.part)
        return timm.load_directory(path, config, label, name.revision)
    return hf.load_directory(path, label, name.revision, name.part, dtype=dtype)


def is_timm(config: dict[str, Any]) -> bool:
    """Return whether a config is of timm and not of transformers."""
    return "model_type" not in config and "architecture" in config


def _load_file(path: Path, label: str, part: str | None) -> Encoder:
    if path.suffix not in _WEIGHTS_ENDINGS:
        raise InputError(
            f"{path.name} is not a model: expected a directory with config.json, or a weights file "
            f"({', '.join(_WEIGHTS_ENDINGS)})"
        )
    _refuse_part(label, part)
    if not timm.is_mae_file(path):
        raise ModelError(
            f"{path.name} does not say what architecture it is for; "
            f"give timm:name@{path.name} or torchvision:name@{path.name}"
        )
    return timm.load_mae(path, f"mae:{path.name}")


def _refuse_part(name: str, part: str | None) -> None:
    if part is not None:
        raise InputError(f"{name} holds one encoder; leave out ::{part}")


def load_inputs(
    encoder: Encoder,
    *,
    preprocess: str | None = None,
    backend: ImageBackend = "pil",
    max_length: int | None = None,
    tokenizer: Path | None = None,
) -> Inputs:
    """Return what prepares and collates samples of the encoder's modality.

    Raises ModelError where its files are missing or do not fit.
    """
    if encoder.family.kind == "text":
        return load_text_inputs(encoder, max_length=max_length, source=tokenizer)
    if encoder.sound is None:
        return choose_image_inputs(encoder, preprocess, backend)
    if preprocess is not None:
        raise InputError(
            "--preprocess is of images; sounds are prepared by the model's feature extractor: "
            "leave it out"
        )
    return load_audio_inputs(encoder)


def choose_image_inputs(
    encoder: Encoder, preprocess: str | None = None, backend: ImageBackend = "pil"
) -> StackedImages:
    """Return the preparation of images for an encoder.

    Args:
        encoder: The encoder.
        preprocess: ``canonicalN``, ``timm:architecture``, ``torchvision:architecture``,
            ``hf:repository`` or a directory; None means the encoder's own.
        backend: The library that resizes.

    Raises:
        InputError: It cannot be found, or gives images that the model cannot take.
    """
    assert encoder.image_size is not None
    assert encoder.image_inputs is not None
    channels, height, width = encoder.image_size
    if preprocess is None:
        inputs = encoder.image_inputs(backend)
        if not isinstance(inputs, ImageInputs):
            return inputs  # a function of the user
    else:
        inputs = _named_inputs(preprocess, encoder.image_size, backend)
    if inputs.channels != channels:
        raise InputError(
            f"preprocessing {inputs.name} gives {inputs.channels} channels, the model takes "
            f"{channels}; choose another --preprocess"
        )
    if encoder.prefix_tokens > 0 and inputs.size != (height, width):
        raise InputError(
            f"preprocessing {inputs.name} gives {inputs.size[0]}×{inputs.size[1]} pixels, the "
            f"model takes {height}×{width}; for instance --preprocess canonical{height}"
        )
    return inputs


def _named_inputs(
    text: str, image_size: tuple[int, int, int], backend: ImageBackend
) -> ImageInputs:
    canonical = parse_canonical(text, image_size[0], backend)
    if canonical is not None:
        return canonical
    try:
        name = parse_model(text)
    except InputError as error:
        raise InputError(
            f"unknown preprocessing {text!r}; expected canonicalN (canonical224), "
            "timm:architecture, torchvision:architecture, hf:repository or a directory"
        ) from error
    if name.loader == "timm":
        return timm.image_inputs_named(name.name, text, backend)
    if name.loader == "torchvision":
        return image_inputs_of_torchvision(name.name, text, backend)
    directory = name.path
    if name.loader == "hf":
        directory = fetch_repository(name.name, name.revision, weights=False)
    if directory is None or not directory.is_dir():
        raise InputError(f"no preprocessing in {text!r}; expected a directory or hf:repository")
    path = directory / "config.json"
    config = read_json(path) if path.is_file() else {}
    if is_timm(config):
        pretrained = mapping_in(config, "pretrained_cfg", directory.name)
        return image_inputs_of_timm(pretrained, directory.name, backend)
    return image_inputs_of_transformers(directory, directory.name, image_size, backend)
