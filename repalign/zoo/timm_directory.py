"""Writing a model in timm's directory format: config.json and model.safetensors."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repalign.zoo.digits import MEAN, SIZE, STD

if TYPE_CHECKING:
    from torch import Tensor


def save_timm_directory(
    directory: Path, architecture: str, model_args: Mapping[str, Any], state: "dict[str, Tensor]"
) -> None:
    """Write the tensors of a timm model with what is needed to build it and to feed it."""
    from safetensors.torch import save_file

    directory.mkdir(parents=True, exist_ok=True)
    config = {
        "architecture": architecture,
        "model_args": dict(model_args),
        "pretrained_cfg": {
            "input_size": [1, SIZE, SIZE],
            "crop_pct": 1.0,
            "crop_mode": "center",
            "interpolation": "bicubic",
            "mean": [MEAN],
            "std": [STD],
            "license": "apache-2.0",
        },
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tensors = {name: tensor.detach().contiguous().clone() for name, tensor in state.items()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
