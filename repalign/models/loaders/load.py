"""Loading a model by its name, whatever library it is for."""

from pathlib import Path

from repalign.exceptions import InputError, ModelError
from repalign.models.loaders.boundary import third_party
from repalign.models.loaders.files import check_directory, read_json
from repalign.models.loaders.loaded import LoadedModel
from repalign.models.loaders.timm import is_mae_state, load_mae, load_timm, load_timm_directory
from repalign.models.loaders.torchvision import load_torchvision
from repalign.models.loaders.transformers import load_transformers
from repalign.models.loaders.weights import read_state_dict
from repalign.models.naming.hub import fetch_repository
from repalign.models.naming.presets import resolve_name
from repalign.models.naming.spec import ModelSpec, parse_model


def load_model(name: str) -> LoadedModel:
    """Load a model by its name or preset, in float32, on the CPU, in eval mode.

    Call ``prepare_environment`` before the first load of a process to honour offline mode.

    Raises InputError for names that mean nothing, ModelError for checkpoints that cannot be used.
    """
    text, _ = resolve_name(name)
    spec = parse_model(text)
    with third_party(f"{name} cannot be loaded"):
        return _load(spec)


def _load(spec: ModelSpec) -> LoadedModel:
    if spec.loader == "timm":
        return load_timm(spec.name, spec.path)
    if spec.loader == "torchvision":
        return load_torchvision(spec.name, spec.path)
    if spec.loader == "mae":
        assert spec.path is not None
        return load_mae(spec.path)
    if spec.loader == "hf":
        return _load_directory(fetch_repository(spec.name, spec.revision), f"hf:{spec.name}", spec)
    assert spec.path is not None
    return _load_local(spec.path, spec)


def _load_local(path: Path, spec: ModelSpec) -> LoadedModel:
    if path.is_dir():
        return _load_directory(path, path.resolve().name, spec)
    if path.suffix not in (".pth", ".pt", ".bin", ".safetensors", ".th"):
        raise InputError(
            f"{path.name} is no model: expected a directory with config.json, or a weights file "
            "(.safetensors, .pth, .pt, .bin)"
        )
    if not is_mae_state(read_state_dict(path)):
        raise ModelError(
            f"{path.name} does not say what architecture it is for; "
            f"give timm:name@{path.name} or torchvision:name@{path.name}"
        )
    return load_mae(path)


def _load_directory(directory: Path, name: str, spec: ModelSpec) -> LoadedModel:
    check_directory(directory)
    config = read_json(directory / "config.json")
    if "model_type" not in config and "architecture" in config:
        return load_timm_directory(directory, name, spec.revision)
    return load_transformers(directory, name, spec.revision)
