"""What a config.json may say before any library sees it; what we do not know is refused."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from repalign.exceptions import ModelError

# Fields through which code, another loader or other weights would come in.
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
# Each layer costs time to build before any weight is looked at; the deepest models have hundreds.
_MOST_LAYERS = 1024
_REPEATED = re.compile(r"(^|_)(n_?)?(layers?|depths?|blocks?|stages?|repeats?|experts?)$")
_LARGEST = 2**31
_MOST_PIXELS = 4096
# A name is made for every label, whether there is a head or not.
_MOST_LABELS = 2**20
# Masks and tables that follow from the config and are no weights: positions squared at most.
_SPARE = 2**28


def check_config(config: dict[str, Any], source: str) -> str:
    """Return the model type of a transformers config if it may be loaded.

    Raises ModelError for types that the library does not have, for fields that would bring in
    code, quantised weights, adapters or other models, and for sizes that no model has.
    """
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in MODEL_MAPPING_NAMES:
        raise ModelError(
            f"{source} is of model type {model_type!r}, which is not one of transformers; "
            "code that comes with a checkpoint is never run"
        )
    _check_fields(config, source)
    check_sizes(config, source)
    return model_type


def _check_fields(value: object, source: str) -> None:
    if isinstance(value, list):
        for inner in value:
            _check_fields(inner, source)
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        # a field that says nothing brings in nothing
        is_set = inner not in (None, False) or key == "auto_map"
        if (key in _REFUSED and is_set) or str(key).endswith("_internal"):
            raise ModelError(
                f"the config of {source} has the field {key!r}, which is refused because it can "
                "bring in code or other weights; remove it if you trust the rest"
            )
        if key == "architecture" and ":" in str(inner):
            raise ModelError(
                f"the config of {source} has the architecture {inner!r}, which leads elsewhere; "
                "expected a name of timm"
            )
        _check_fields(inner, source)


def check_sizes(config: object, source: str) -> None:
    """Refuse numbers that would take for ever to build.

    Raises ModelError naming the field.
    """
    for key, value in _numbers("", config):
        limit = _LARGEST
        if _REPEATED.search(key):
            limit = _MOST_LAYERS
        elif key in ("image_size", "img_size"):
            limit = _MOST_PIXELS
        elif key == "num_labels":
            limit = _MOST_LABELS
        if value > limit:
            raise ModelError(f"the config of {source} says {key} {value}; at most {limit} is built")


def mapping_in(config: Mapping[str, Any], key: str, source: str) -> dict[str, Any]:
    """Return an object of a config, empty where it says nothing.

    Raises ModelError for a value of another kind.
    """
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ModelError(f"the config of {source} says {key} {value!r}; expected an object")
    return dict(value)


def check_size_of(module: nn.Module, n_bytes: int, source: str) -> None:
    """Refuse a model, built without memory on the meta device, that its weights cannot fill.

    Raises ModelError when it has more values than the weights have bytes, or larger tables than
    follow from any sensible config.
    """
    values = sum(parameter.numel() for parameter in module.parameters())
    tables = sum(buffer.numel() for buffer in module.buffers())
    if values > n_bytes + 2**20 or tables > n_bytes + _SPARE:
        raise ModelError(
            f"the config of {source} describes {values + tables:,} values, and its weights are "
            f"{n_bytes:,} bytes; they do not belong together"
        )


def _numbers(key: str, value: object) -> Iterator[tuple[str, int]]:
    """Yield the whole numbers of a config with their keys; a list of layers counts as their sum."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(str(name), inner)
    elif isinstance(value, list | tuple):
        numbers = [each for each in value if isinstance(each, int)]
        yield key, sum(numbers) if _REPEATED.search(key) else len(value)
        for inner in value:
            yield from _numbers(key, inner)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield key, value
