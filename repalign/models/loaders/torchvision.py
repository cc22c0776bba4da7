"""Image classifiers of torchvision; the representation is what enters the last linear layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError, reading
from repalign.files import file_sha256
from repalign.models.inputs.images import ImagePreprocess, preprocess_of_torchvision
from repalign.models.loaders.boundary import MODEL_ERRORS, running
from repalign.models.loaders.families import CNN
from repalign.models.loaders.loaded import LoadedModel, Origin
from repalign.models.loaders.loader import Loader
from repalign.models.loaders.weights import load_strictly, read_state_dict
from repalign.models.naming.hub import is_offline
from repalign.models.naming.spec import ModelSpec
from repalign.models.views.layers import FINAL, Tap, map_layers


class TorchvisionLoader(Loader):
    """Classifiers of torchvision by name."""

    def load(self, spec: ModelSpec) -> LoadedModel:
        """Load a classifier from a weights file, or with its published weights.

        Raises InputError for an unknown name, ModelError for weights that do not fit.
        """
        import torchvision
        from torchvision.models import list_models

        if spec.name not in list_models(torchvision.models):
            near = [known for known in list_models(torchvision.models) if spec.name[:6] in known]
            listed = "see torchvision.models.list_models()"
            hint = f"did you mean {', '.join(near[:3])}?" if near else listed
            raise InputError(f"unknown torchvision model {spec.name!r}; {hint}")
        return _load(spec.name, spec.path if spec.path is not None else _published(spec.name))

    def own_preprocess(self, model: LoadedModel) -> ImagePreprocess:
        """Return the transform that was published with the weights of that architecture."""
        return _preprocess(model.origin.class_name, model.origin.model)

    def named_preprocess(self, spec: ModelSpec) -> ImagePreprocess:
        """Return the transform that was published with the weights of an architecture."""
        return _preprocess(spec.name, str(spec))


LOADER = TorchvisionLoader()


def _load(name: str, path: Path) -> LoadedModel:
    from torchvision.models import get_model

    state = read_state_dict(path)
    head = _last_linear(get_model(name, weights=None), name)
    classes = state.get(f"{head}.weight")
    options = {} if classes is None or not classes.ndim else {"num_classes": classes.shape[0]}
    with reading(path.name, *MODEL_ERRORS, failure=ModelError, problem=f"does not fit {name}"):
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


def _preprocess(architecture: str, name: str) -> ImagePreprocess:
    from torchvision.models import get_model_weights

    # a name that torchvision does not have, or one without published weights
    with reading(name, AttributeError, KeyError, ValueError, problem="has no transform"):
        published = get_model_weights(architecture).DEFAULT.transforms()
    crop = published.crop_size[0]
    return preprocess_of_torchvision(
        name,
        resize=published.resize_size[0],
        crop=(crop, crop),
        interpolation=published.interpolation.value,
        normalise=(tuple(published.mean), tuple(published.std)),
    )


def _call(module: nn.Module, inputs: Mapping[str, Tensor]) -> None:
    with running(module):
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
    parts = dict(module.named_modules())
    linear = [key for key, part in parts.items() if isinstance(part, nn.Linear)]
    # a SqueezeNet classifies every position by a convolution, and averages afterwards
    linear = linear or [key for key, part in parts.items() if isinstance(part, nn.Conv2d)]
    if not linear:
        raise InputError(f"torchvision:{name} has no classifier; choose a model of images")
    return linear[-1]


def _stages(module: nn.Module) -> list[str]:
    """Names of the stages: layer1, layer2 … of a ResNet, the children elsewhere."""
    names = [name for name, _ in module.named_children()]
    numbered = [name for name in names if name.startswith("layer") and name[5:].isdigit()]
    return numbered or names[:1]
