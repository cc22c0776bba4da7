"""Choosing the preprocessing of images: the model's own, a named one, or another model's."""

from dataclasses import replace

from repalign.exceptions import InputError, reading
from repalign.models.inputs.images import (
    ImageBackend,
    ImagePreprocess,
    parse_preprocess,
)
from repalign.models.loaders.files import check_directory
from repalign.models.loaders.loaded import LoadedModel
from repalign.models.loaders.loader import claiming_loader, loader_of, loader_of_model
from repalign.models.naming.hub import fetch_repository
from repalign.models.naming.loaders import LOADERS, parse_model
from repalign.models.naming.spec import LOCAL


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
    with reading(wanted or model.origin.model):
        own = loader_of_model(model).own_preprocess
        chosen = own(model) if wanted is None else _named(wanted, channels)
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


def _named(wanted: str, channels: int) -> ImagePreprocess:
    canonical = parse_preprocess(wanted, channels)
    if canonical is not None:
        return canonical
    try:
        spec = parse_model(wanted)
    except InputError as error:
        raise InputError(
            f"unknown preprocessing {wanted!r}; expected canonicalN (canonical224), "
            "timm:architecture, torchvision:architecture, hf:repository or a directory"
        ) from error
    if spec.loader != LOCAL and not LOADERS[spec.loader].in_hub:
        return loader_of(spec.loader).named_preprocess(spec)
    directory = spec.path
    if directory is None:
        directory = fetch_repository(spec.name, spec.revision, weights=False)
    if not directory.is_dir():
        raise InputError(f"no preprocessing in {wanted!r}; expected a directory or hf:repository")
    check_directory(directory)
    claiming = claiming_loader(directory)
    assert claiming is not None, "some loader claims every directory"
    return claiming.preprocess_in(directory)
