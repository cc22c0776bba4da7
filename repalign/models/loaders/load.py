"""Loading a model by its name, whatever library it is for."""

from pathlib import Path

from repalign.exceptions import InputError, ModelError, reading
from repalign.models.loaders.files import check_directory, read_json
from repalign.models.loaders.loaded import LoadedModel
from repalign.models.loaders.loader import claiming_loader, loader_of, refuse_part
from repalign.models.naming.hub import OPEN_CLIP_CONFIG, fetch_repository
from repalign.models.naming.loaders import LOADERS, parse_model
from repalign.models.naming.presets import resolve_name
from repalign.models.naming.spec import LOCAL, ModelSpec

_WEIGHTS_ENDINGS = (".safetensors", ".pth", ".pt", ".bin", ".th")


def load_model(name: str, *, trust_code: bool = False) -> LoadedModel:
    """Load a model by its name or preset, in float32, on the CPU, in eval mode.

    Call ``prepare_environment`` before the first load of a process to honour offline mode.

    ``trust_code`` allows a name that is a function of a file, which is run.

    Raises InputError for names that mean nothing, ModelError for checkpoints that cannot be used.
    """
    text, _ = resolve_name(name)
    spec = parse_model(text)
    if spec.loader != LOCAL and LOADERS[spec.loader].runs_code and not trust_code:
        raise InputError(
            f"{name} would run the code of that file; if you trust it, allow it with --trust-code"
        )
    with reading(name):
        return _load(spec)


def _load(spec: ModelSpec) -> LoadedModel:
    if spec.loader == LOCAL:
        assert spec.path is not None
        return _load_path(spec.path, spec.path.resolve().name, spec)
    if LOADERS[spec.loader].in_hub:
        directory = fetch_repository(spec.name, spec.revision)
        return _load_path(directory, f"{spec.loader}:{spec.name}", spec)
    refuse_part(f"{spec.loader}:{spec.name}", spec.part)
    return loader_of(spec.loader).load(spec)


def _load_path(path: Path, name: str, spec: ModelSpec) -> LoadedModel:
    if path.is_dir():
        check_directory(path)
        others = ("modules.json", OPEN_CLIP_CONFIG)
        if not any((path / file).is_file() for file in others):
            read_json(path / "config.json")
    elif path.suffix not in _WEIGHTS_ENDINGS:
        raise InputError(
            f"{path.name} is no model: expected a directory with config.json, or a weights file "
            f"({', '.join(_WEIGHTS_ENDINGS)})"
        )
    loader = claiming_loader(path)
    if loader is None:
        raise ModelError(
            f"{path.name} does not say what architecture it is for; "
            f"give timm:name@{path.name} or torchvision:name@{path.name}"
        )
    return loader.load_path(path, name, spec.revision, spec.part)
