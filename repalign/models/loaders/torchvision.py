"""Image classifiers of torchvision; the representation is what enters the last linear layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError
from repalign.files import file_sha256
from repalign.models.loaders.families import CNN
from repalign.models.loaders.loaded import LoadedModel, Origin
from repalign.models.loaders.weights import load_strictly, read_state_dict
from repalign.models.naming.hub import is_offline
from repalign.models.views.layers import FINAL, Tap, map_layers


def load_torchvision(name: str, weights: Path | None = None) -> LoadedModel:
    """Load a torchvision classifier from a weights file, or with its published weights.

    Raises InputError for an unknown name, ModelError for weights that do not fit.
    """
    import torchvision
    from torchvision.models import get_model, list_models

    if name not in list_models(torchvision.models):
        near = [known for known in list_models(torchvision.models) if name[:6] in known][:3]
        hint = (
            f"did you mean {', '.join(near)}?" if near else "see torchvision.models.list_models()"
        )
        raise InputError(f"unknown torchvision model {name!r}; {hint}")
    path = weights if weights is not None else _published(name)
    state = read_state_dict(path)
    head = _last_linear(get_model(name, weights=None), name)
    classes = state.get(f"{head}.weight")
    options = {} if classes is None else {"num_classes": classes.shape[0]}
    module: Any = get_model(name, weights=None, **options)
    load_strictly(module, state, f"torchvision:{name}@{path.name}")
    module = module.float().eval()
    return LoadedModel(
        module=module,
        family=CNN,
        layers=map_layers(module, _stages(module), final=Tap(FINAL, head, "input")),
        origin=Origin(
            f"torchvision:{name}",
            "torchvision",
            name,
            {path.name: file_sha256(path)},
            licence="BSD-3-Clause",
        ),
        call=_call,
        image_size=(3, 224, 224),
    )


def _call(module: nn.Module, inputs: Mapping[str, Tensor]) -> None:
    module(inputs["pixel_values"])


def _published(name: str) -> Path:
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
    linear = [key for key, part in module.named_modules() if isinstance(part, nn.Linear)]
    if not linear:
        raise InputError(f"torchvision:{name} has no linear classifier; choose a classifier")
    return linear[-1]


def _stages(module: nn.Module) -> list[str]:
    """Names of the stages: layer1, layer2 … of a ResNet, the children elsewhere."""
    names = [name for name, _ in module.named_children()]
    numbered = [name for name in names if name.startswith("layer") and name[5:].isdigit()]
    return numbered or names[:1]
