"""The spec of a store: everything that determines its values; and the environment beside it."""

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from repalign.data.samples import Selection
from repalign.models.naming.loaders import recorded_packages
from repalign.workflows.extract.settings import ExtractSettings

if TYPE_CHECKING:
    import torch

    from repalign.models.views.views import View
    from repalign.workflows.extract.runner import BatchRunner


def build_spec(
    settings: ExtractSettings,
    runner: "BatchRunner",
    selection: Selection,
    prepared: dict[str, object],
    per_shard: int,
) -> dict[str, Any]:
    """Write down how rows are made, as plain values without paths or names of people.

    ``prepared`` describes the tokenizer of a text model or the preprocessing of an image model.
    """
    model = runner.model
    is_text = model.family.kind == "text"
    spec = {
        "model": model.origin.as_dict(),
        "view": {
            "family": model.family.name,
            "tokens": settings.tokens,
            "views": {view.key: _describe_view(view) for view in runner.views},
        },
        "tokenizer" if is_text else "preprocess": prepared,
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

    environment: dict[str, Any] = {name: version(name) for name in recorded_packages()}
    environment["threads"] = torch.get_num_threads()
    if device.type == "cuda":
        environment["gpu"] = torch.cuda.get_device_name(device)
        environment["cuda"] = str(torch.version.cuda)
    return environment
