"""Image classifiers of torchvision; the representation is what enters the last linear layer."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from repalign.exceptions import InputError, ModelError, reading
from repalign.models.checkpoints import build_filled, hash_files, is_offline, read_state_dict
from repalign.models.encoder import FINAL, MODEL_ERRORS, Encoder, Origin, Tap, map_layers, running
from repalign.models.families import CNN
from repalign.models.inputs.images import image_inputs_of_torchvision
from repalign.models.names import ModelName


def load_architecture(name: ModelName) -> Encoder:
    """Load a classifier from a weights file, or with its published weights.

    Raises InputError for an unknown name, ModelError for weights that do not fit.
    """
    import torchvision
    from torchvision.models import list_models

    architecture = name.name
    if architecture not in list_models(torchvision.models):
        near = [name for name in list_models(torchvision.models) if architecture[:6] in name]
        listed = "see torchvision.models.list_models()"
        hint = f"did you mean {', '.join(near[:3])}?" if near else listed
        raise InputError(f"unknown torchvision model {architecture!r}; {hint}")
    path = name.path if name.path is not None else _published(architecture)
    state = read_state_dict(path)
    with torch.device("meta"):
        head = _last_linear(_create(architecture, architecture), architecture)
    classes = state.get(f"{head}.weight")
    options = {} if classes is None or not classes.ndim else {"num_classes": classes.shape[0]}
    build = partial(_create, path.name, architecture, **options)
    module: Any = build_filled(build, state, f"torchvision:{architecture}@{path.name}")
    files = hash_files([path])
    return Encoder(
        module=module,
        origin=Origin(
            f"torchvision:{architecture}",
            "torchvision",
            architecture,
            files,
            licence="BSD-3-Clause",
        ),
        family=CNN,
        layers=map_layers(module, _stages(module), final=Tap(FINAL, head, "input")),
        forward=_forward,
        image_size=(3, 224, 224),
        image_inputs=partial(
            image_inputs_of_torchvision, architecture, f"torchvision:{architecture}"
        ),
    )


class _RealNumbers(TorchFunctionMode):
    """Keep ranges and lists of numbers in memory: a RegNet computes its widths from them."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if func in (torch.arange, torch.tensor):
            options = {"device": "cpu"} | options
        return func(*args, **options)


def _create(source: str, architecture: str, **options: Any) -> nn.Module:
    from torchvision.models import get_model

    if architecture in ("googlenet", "inception_v3"):
        options["init_weights"] = False  # takes long, and the weights are loaded
    problem = f"does not fit {architecture}"
    with reading(source, *MODEL_ERRORS, failure=ModelError, problem=problem), _RealNumbers():
        module: nn.Module = get_model(architecture, weights=None, **options)
    return module


def _forward(module: nn.Module, inputs: Mapping[str, Tensor]) -> None:
    with running(module):
        module(inputs["pixel_values"])


def _published(name: str) -> Path:
    """Return the published weights of an architecture, downloaded where they are not cached."""
    from torch import hub
    from torchvision.models import get_model_weights

    url = get_model_weights(name).DEFAULT.url
    path = Path(hub.get_dir()) / "checkpoints" / url.rsplit("/", 1)[-1]
    if path.is_file():
        return path
    if is_offline():
        raise ModelError(f"torchvision:{name} is not in the cache and offline mode is on")
    path.parent.mkdir(parents=True, exist_ok=True)
    # the file's name carries the first digits of its hash, which the download checks
    digits = path.stem.rsplit("-", 1)[-1]
    try:
        hub.download_url_to_file(url, str(path), hash_prefix=digits, progress=False)
    except (OSError, RuntimeError) as error:
        raise ModelError(f"cannot download the weights of torchvision:{name}: {error}") from error
    return path


def _last_linear(module: nn.Module, name: str) -> str:
    parts = dict(module.named_modules())
    linear = [key for key, part in parts.items() if isinstance(part, nn.Linear)]
    # a SqueezeNet classifies every position by a convolution, and averages afterwards
    linear = linear or [key for key, part in parts.items() if isinstance(part, nn.Conv2d)]
    if not linear:
        raise InputError(f"torchvision:{name} has no classifier; choose a model of images")
    return linear[-1]


def _stages(module: nn.Module) -> list[str]:
    """Return the names of the stages, layer1, layer2 … of a ResNet."""
    names = [name for name, _ in module.named_children()]
    numbered = [name for name in names if name.startswith("layer") and name[5:].isdigit()]
    return numbered or names[:1]
