"""Reading config.json ourselves, before any library does, and refusing what we do not know."""

import json
from pathlib import Path
from typing import Any

from repalign.exceptions import ModelError
from repalign.models.loaders.families import ARCHITECTURES

_MAX_BYTES = 2**20
# Fields through which code, another loader or other weights would come in.
_REFUSED = ("auto_map", "quantization_config", "adapters", "custom_pipelines", "trust_remote_code")


def read_json(path: Path) -> dict[str, Any]:
    """Read a small JSON object.

    Raises ModelError when the file is missing, large, or no object.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ModelError(f"{path.name} is larger than {_MAX_BYTES} bytes; that is no config")
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(
            f"no {path.name} in {path.parent.name}/; give a directory saved by transformers "
            "(save_pretrained) or in timm's format"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path.name} in {path.parent.name}/ is no readable JSON") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path.name} holds a {type(value).__name__}, expected an object")
    return value


def check_config(config: dict[str, Any], source: str) -> str:
    """Return the model type of a transformers config if it may be loaded.

    Raises ModelError for types that are not on the list and for fields that would bring in
    code, quantised weights or adapters.
    """
    model_type = config.get("model_type")
    if model_type not in ARCHITECTURES:
        raise ModelError(
            f"{source} is of model type {model_type!r}, which is not supported; "
            f"supported: {', '.join(sorted(ARCHITECTURES))}"
        )
    for key in config:
        if key in _REFUSED or key.endswith("_internal"):
            raise ModelError(
                f"the config of {source} has the field {key!r}, which is refused because it can "
                "bring in code or other weights; remove it if you trust the rest"
            )
    return str(model_type)
