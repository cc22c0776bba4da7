"""Choosing the preprocessing of images: the model's own, a named one, or another model's."""

from dataclasses import replace

from repalign.exceptions import InputError, ModelError
from repalign.models.inputs.images import (
    ImageBackend,
    ImagePreprocess,
    parse_preprocess,
    preprocess_of_timm,
    preprocess_of_torchvision,
    preprocess_of_transformers,
)
from repalign.models.loaders.boundary import third_party
from repalign.models.loaders.files import check_directory, read_json
from repalign.models.loaders.loaded import LoadedModel
from repalign.models.naming.hub import fetch_repository
from repalign.models.naming.spec import parse_model


def choose_preprocess(
    model: LoadedModel, wanted: str | None = None, backend: ImageBackend = "pil"
) -> ImagePreprocess:
    """Return the preprocessing to use for a model.

    ``wanted`` is ``canonicalN``, ``timm:architecture``, ``hf:repository`` or a local
    directory; None means the model's own. ``backend`` resizes.

    Raises InputError when it cannot be found or gives images the model cannot take.
    """
    assert model.image_size is not None
    channels, height, width = model.image_size
    with third_party(f"no usable preprocessing in {wanted or model.origin.model}"):
        chosen = _own(model) if wanted is None else _named(wanted, channels)
    chosen = replace(chosen, backend=backend)
    if len(chosen.mean) != channels:
        raise InputError(
            f"preprocessing {chosen.name} gives {len(chosen.mean)} channels, the model takes "
            f"{channels}; choose another --preprocess"
        )
    size = chosen.output_size
    if size is None or (model.prefix_tokens > 0 and size != (height, width)):
        got = "images of no fixed size" if size is None else f"{size[0]}×{size[1]} pixels"
        raise InputError(
            f"preprocessing {chosen.name} gives {got}, the model takes {height}×{width}; "
            f"for instance --preprocess canonical{height}"
        )
    return chosen


def _own(model: LoadedModel) -> ImagePreprocess:
    name = model.origin.model
    if model.origin.loader in ("timm", "mae"):
        return preprocess_of_timm(_timm_config(model), name)
    if model.origin.loader == "torchvision":
        return _torchvision(model.origin.class_name, name)
    path = model.directory / "preprocessor_config.json" if model.directory else None
    if path is None or not path.is_file():
        size_hint = model.image_size[1] if model.image_size else 224
        raise ModelError(
            f"{name} comes without preprocessor_config.json; say how images are prepared, "
            f"for instance --preprocess canonical{size_hint}"
        )
    return preprocess_of_transformers(read_json(path), name)


def _torchvision(architecture: str, name: str) -> ImagePreprocess:
    from torchvision.models import get_model_weights

    published = get_model_weights(architecture).DEFAULT.transforms()
    crop = published.crop_size[0]
    return preprocess_of_torchvision(
        name,
        resize=published.resize_size[0],
        crop=(crop, crop),
        interpolation=published.interpolation.value,
        normalise=(tuple(published.mean), tuple(published.std)),
    )


def _timm_config(model: LoadedModel) -> dict[str, object]:
    own = model.config.get("pretrained_cfg") or getattr(model.module, "pretrained_cfg", None) or {}
    config = dict(own) if isinstance(own, dict) else dict(vars(own))
    config["input_size"] = model.image_size
    return config


def _named(wanted: str, channels: int) -> ImagePreprocess:
    canonical = parse_preprocess(wanted, channels)
    if canonical is not None:
        return canonical
    try:
        spec = parse_model(wanted)
    except InputError as error:
        raise InputError(
            f"unknown preprocessing {wanted!r}; expected canonicalN (canonical224), "
            "timm:architecture, hf:repository or a directory"
        ) from error
    if spec.loader == "timm":
        import timm

        pretrained = timm.get_pretrained_cfg(spec.name)
        if pretrained is None:
            raise InputError(f"timm has no preprocessing for {spec.name!r}")
        return preprocess_of_timm(vars(pretrained), wanted)
    directory = (
        fetch_repository(spec.name, spec.revision, weights=False)
        if spec.loader == "hf"
        else spec.path
    )
    if directory is None or not directory.is_dir():
        raise InputError(f"no preprocessing in {wanted!r}; expected a directory or hf:repository")
    check_directory(directory)
    config = directory / "preprocessor_config.json"
    if config.is_file():
        return preprocess_of_transformers(read_json(config), directory.name)
    return preprocess_of_timm(
        read_json(directory / "config.json").get("pretrained_cfg") or {}, directory.name
    )
