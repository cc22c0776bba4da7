"""The spec of a store, which determines its values, and the environment."""

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from repalign.data.samples import Selection
from repalign.extraction.settings import ExtractSettings
from repalign.models.names import RECORDED_PACKAGES

if TYPE_CHECKING:
    import torch

    from repalign.extraction.device import Runner
    from repalign.models.capture import View
    from repalign.models.inputs.items import Inputs


def build_spec(
    settings: ExtractSettings,
    runner: "Runner",
    selection: Selection,
    inputs: "Inputs",
    per_shard: int,
) -> dict[str, Any]:
    """Return how rows are made, as plain values without paths or names of people.

    ``inputs`` prepare the samples: by a tokenizer, or by the preprocessing of images or sounds.
    """
    encoder = runner.encoder
    is_text = encoder.family.kind == "text"
    spec = {
        "model": encoder.origin.as_dict(),
        "view": {
            "family": encoder.family.name,
            "tokens": settings.tokens,
            "views": {view.key: _describe_view(view) for view in runner.views},
        },
        "tokenizer" if is_text else "preprocess": inputs.as_dict(),
        # how the library describes it, which another library describes in other words
        "processor": getattr(inputs, "settings", None),
        "dataset": {
            **selection.source.description,
            "n": len(selection.source),
            "limit": settings.limit,
            "sample": settings.sample,
            "with_ids": settings.with_ids,
        },
        "numerics": {
            "weights": "fp32",
            "autocast": settings.dtype,
            "device": runner.device.type,
            "tf32": False,
        },
        "plan": {
            "samples_per_shard": per_shard,
            "batch_size": settings.batch_size or "auto",
        },
        "seed": settings.seed,
    }
    # tuples become lists, as they will read from the file
    return json.loads(json.dumps(spec))


def _describe_view(view: "View") -> dict[str, str | int]:
    return {
        "layer": view.tap.label,
        "module": view.tap.module,
        "side": view.tap.side,
        "pool": view.pool,
        "prefix_tokens": view.prefix,
    }


def build_environment(device: "torch.device") -> dict[str, Any]:
    """Versions and the kind of device: what may explain small differences."""
    import torch

    environment: dict[str, Any] = {name: version(name) for name in RECORDED_PACKAGES}
    environment["threads"] = torch.get_num_threads()
    if device.type == "cuda":
        environment["gpu"] = torch.cuda.get_device_name(device)
        environment["cuda"] = str(torch.version.cuda)
    return environment
