"""Encoders saved in the format of transformers, from a directory on this disk."""

import inspect
import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from repalign.damage_errors import PICKLE_ERRORS
from repalign.exceptions import InputError, ModelError, reading
from repalign.models.checkpoints import (
    check_depth,
    check_keys,
    hash_files,
    mapping_in,
    offline_mode,
    read_json,
    snapshot_commit,
    weight_files,
)
from repalign.models.encoder import MODEL_ERRORS, Encoder, Origin
from repalign.models.inputs.images import image_inputs_of_transformers
from repalign.models.trace import image_structure, sound_structure, text_structure
from repalign.process_state import Setting, holding

# Checkpoints of two encoders: which class each is, by what stands behind `::` in the name.
TOWERS = {
    "clip": {"text": "CLIPTextModel", "vision": "CLIPVisionModel"},
    "siglip": {"text": "SiglipTextModel", "vision": "SiglipVisionModel"},
}
# Fields of a config through which code, another loader or other weights would come in.
_REFUSED = (
    "adapters",
    "auto_map",
    "backbone",
    "backbone_config",
    "backbone_kwargs",
    "checkpoint_path",
    "configuration_files",
    "custom_pipelines",
    "distributed_config",
    "fusion_config",
    "kernel_config",
    "keypoint_detector_config",
    "quantization_config",
    "transformers_weights",
    "trust_remote_code",
)
# Masks and tables that follow from the config and are not weights: positions squared at most.
_TABLES = 2**28


def load_directory(
    path: Path,
    name: str,
    revision: str | None = None,
    part: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> Encoder:
    """Load the encoder of a checkpoint on the CPU, in eval mode.

    Raises ModelError for types that the library does not have, for missing, unexpected or
    misshapen weights, and for files that cannot be read safely.
    """
    config = read_json(path / "config.json")
    check_config(config, name)
    if (path / "adapter_config.json").exists():
        raise ModelError(f"{name} holds an adapter, which is not applied; merge it into the model")
    files = weight_files(path, name)
    encoder_class, settings = _encoder_class(config, part, name)
    with _quiet_loading(), offline_mode():
        module = _load_module(path, encoder_class, settings, name, files, dtype)
    origin = Origin(
        model=name if part is None else f"{name}::{part}",
        loader="transformers",
        class_name=encoder_class.__name__,
        files=hash_files([*files, path / "config.json"]),
        revision=revision,
        commit=snapshot_commit(path),
    )
    return _describe(module, origin, settings, path)


def check_config(config: Mapping[str, Any], source: str) -> None:
    """Refuse a config of an unknown type, or one that brings in other files.

    Raises ModelError naming the type or the field.
    """
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in MODEL_MAPPING_NAMES:
        raise ModelError(
            f"{source} is of model type {model_type!r}, which is not one of transformers; "
            "code that comes with a checkpoint is never run"
        )
    for key, value in _fields(config):
        # a field that is empty brings in nothing
        is_set = value not in (None, False) or key == "auto_map"
        if (key in _REFUSED and is_set) or key.endswith("_internal"):
            raise ModelError(
                f"the config of {source} has the field {key!r}, which is refused because it can "
                "bring in code or other weights; remove it if you trust the rest"
            )
        if key == "architecture" and ":" in str(value):
            raise ModelError(
                f"the config of {source} has the architecture {value!r}, which leads elsewhere; "
                "expected a name of timm"
            )
        check_depth(key, value, source)


def _fields(value: object) -> Iterator[tuple[str, object]]:
    """Yield all fields of a config, those of inner objects included."""
    if isinstance(value, list):
        for inner in value:
            yield from _fields(inner)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key), inner
            yield from _fields(inner)


def _encoder_class(
    config: dict[str, Any], part: str | None, name: str
) -> tuple[Any, dict[str, Any]]:
    """Return the class of the encoder that a config describes, and its config.

    Raises InputError when it has two encoders and none was chosen, or the other way round.
    """
    import transformers
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES,
        MODEL_MAPPING_NAMES,
    )

    model_type = config["model_type"]
    towers = TOWERS.get(model_type, {})
    if (part in towers) != bool(towers) or (part is not None and not towers):
        offered = " or ".join(f"{name}::{tower}" for tower in towers) or name
        raise InputError(f"{name} is of model type {model_type}; expected {offered}")
    if part is not None:
        return getattr(transformers, towers[part]), mapping_in(config, f"{part}_config", name)
    class_name = MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES.get(
        model_type, MODEL_MAPPING_NAMES[model_type]
    )
    if not isinstance(class_name, str):
        raise ModelError(f"{name} is of model type {model_type}, which has no single encoder")
    return getattr(transformers, class_name), config


def _load_module(
    path: Path,
    encoder_class: Any,
    config: dict[str, Any],
    name: str,
    files: list[Path],
    dtype: torch.dtype,
) -> Any:
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    problem = f"cannot be loaded as {encoder_class.__name__}"
    errors = (*MODEL_ERRORS, *PICKLE_ERRORS, SafetensorError, StrictDataclassError)
    loading = partial(reading, name, *errors, failure=ModelError, problem=problem)
    parameters = inspect.signature(encoder_class.__init__).parameters
    init = {"add_pooling_layer": False} if "add_pooling_layer" in parameters else {}
    attention = "sdpa" if getattr(encoder_class, "_supports_sdpa", False) else None
    with loading(), torch.device("meta"):
        outline = encoder_class(encoder_class.config_class.from_dict(dict(config)), **init)
    _check_size(outline, sum(file.stat().st_size for file in files), name)
    with loading():
        module, report = encoder_class.from_pretrained(
            path,
            config=encoder_class.config_class.from_dict(dict(config)),
            local_files_only=True,
            trust_remote_code=False,
            weights_only=True,
            use_safetensors=files[0].suffix == ".safetensors",
            dtype=dtype,
            attn_implementation=attention,
            ignore_mismatched_sizes=True,  # they are reported, and refused below
            output_loading_info=True,
            **init,
        )
    _check_report(name, report, module.base_model_prefix)
    # the decoder of a T5 or BART has no states of its own for a text
    return (module.get_encoder() if module.config.is_encoder_decoder else module).eval()


def _check_size(outline: nn.Module, n_bytes: int, source: str) -> None:
    """Refuse a config, built without memory, that its weights cannot fill.

    Raises ModelError when it has more values than the weights have bytes, or larger tables than
    follow from any sensible config.
    """
    values = sum(parameter.numel() for parameter in outline.parameters())
    tables = sum(buffer.numel() for buffer in outline.buffers())
    if values > n_bytes + 2**20 or tables > n_bytes + _TABLES:
        raise ModelError(
            f"the config of {source} describes {values + tables:,} values, and its weights are "
            f"{n_bytes:,} bytes; they do not belong together"
        )


def _check_report(name: str, report: Mapping[str, Any], base: str) -> None:
    for key, shape, expected in sorted(report["mismatched_keys"]):
        raise ModelError(
            f"{name} has {key} of shape {tuple(shape)}, expected {tuple(expected)}; "
            "the weights do not fit the config.json of that directory"
        )
    # in a checkpoint of a whole model the encoder's weights stand behind this prefix, and those
    # of another encoder behind that of its own
    towers = {f"{tower}_model." for towers in TOWERS.values() for tower in towers} - {f"{base}."}
    unexpected = {
        key.removeprefix(f"{base}.")
        for key in report["unexpected_keys"]
        if not key.startswith(tuple(towers))
    }
    # a vector that stands for masked sounds while a wav2vec2 is trained, and never afterwards
    missing = {key for key in report["missing_keys"] if not key.endswith("masked_spec_embed")}
    check_keys(name, missing, unexpected)


def _describe(module: Any, origin: Origin, config: Mapping[str, Any], directory: Path) -> Encoder:
    """Describe a loaded module by forward passes over noise."""
    key, name = module.main_input_name, origin.model
    fields: dict[str, Any]
    if key == "input_ids":
        fields = text_structure(module, name)
        pad_id = config.get("pad_token_id")
        fields["max_length"] = _max_length(module)
        fields["vocabulary_rows"] = module.get_input_embeddings().num_embeddings
        fields["pad_id"] = pad_id if isinstance(pad_id, int) else None
    elif key == "pixel_values":
        size = _image_size(module.config, name)
        fields = image_structure(module, name, size)
        fields["image_size"] = size
        fields["image_inputs"] = partial(image_inputs_of_transformers, directory, name, size)
    elif key in ("input_values", "input_features"):
        fields = sound_structure(module, name)
    else:
        raise ModelError(f"{name} takes {key}, and neither texts, images nor sounds")
    return Encoder(module=module, origin=origin, directory=directory, **fields)


def _image_size(config: Any, name: str) -> tuple[int, int, int]:
    size = getattr(config, "image_size", None) or 224
    sides = size if isinstance(size, list | tuple) else (size, size)
    channels = getattr(config, "num_channels", None)
    sizes = (channels, *sides)
    if len(sizes) != 3 or not all(type(side) is int and side > 0 for side in sizes):
        raise ModelError(f"{name} takes images of {sizes}; expected channels, height and width")
    return sizes


def _max_length(module: Any) -> int | None:
    config = module.config
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    for name, part in module.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding):
            # RoBERTa and its like count positions from behind the padding index
            taken = 0 if part.padding_idx is None else part.padding_idx + 1
            limit = min(limit or part.num_embeddings, part.num_embeddings - taken)
    return limit if isinstance(limit, int) and limit > 0 else None


def _quiet_loading() -> AbstractContextManager[None]:
    # The report is read and acted upon; the library's own table of it is noise.
    from transformers.utils import logging as untyped

    library: Any = untyped
    library.get_verbosity()  # sets the level where that was not done before

    def show_progress(is_shown: bool) -> None:
        (library.enable_progress_bar if is_shown else library.disable_progress_bar)()

    logger = logging.getLogger("transformers")
    level = Setting("level of transformers", lambda: logger.level, logger.setLevel)
    bars = Setting("bars of transformers", library.is_progress_bar_enabled, show_progress)
    return holding({level: logging.CRITICAL, bars: False})
