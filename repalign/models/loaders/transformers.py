"""Encoders saved in the transformers format, from a directory on this disk."""

import copy
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import ModelError
from repalign.models.inputs.images import ImagePreprocess, preprocess_of_transformers
from repalign.models.loaders.boundary import third_party
from repalign.models.loaders.config_policy import check_config, check_size_of
from repalign.models.loaders.families import (
    ARCHITECTURES,
    CAUSAL_ENCODER,
    CNN,
    DECODER,
    ENCODER,
    VIT_MAE,
    Architecture,
    Family,
)
from repalign.models.loaders.files import Checkpoint, read_json
from repalign.models.loaders.loaded import Call, LoadedModel, Origin
from repalign.models.loaders.loader import Loader
from repalign.models.loaders.weights import check_keys
from repalign.models.naming.hub import snapshot_commit
from repalign.models.views.layers import FINAL, LayerMap, Tap, find_blocks, map_layers

_BLOCK_COUNTS = ("num_hidden_layers", "n_layer", "n_layers")


class TransformersLoader(Loader):
    """Encoders of transformers, from directories as its ``save_pretrained`` writes them."""

    def claims(self, path: Path) -> bool:
        """Whether it is a directory; what its config.json says is looked at when it is loaded."""
        return path.is_dir()

    def load_path(self, path: Path, name: str, revision: str | None = None) -> LoadedModel:
        """Load the encoder of a checkpoint in float32, on the CPU, in eval mode.

        Raises ModelError for types that are not on the list, for missing, unexpected or
        misshapen weights, and for files that cannot be read safely.
        """
        config = read_json(path / "config.json")
        architecture = ARCHITECTURES[check_config(config, name)]
        checkpoint = Checkpoint(path, name)
        module = _load_module(checkpoint, architecture, config, name)
        origin = Origin(
            model=name,
            loader="transformers",
            class_name=architecture.class_name,
            files=checkpoint.hashes(path / "config.json"),
            revision=revision,
            commit=snapshot_commit(path),
        )
        return _describe(module, origin, architecture, config, path)

    def own_preprocess(self, model: LoadedModel) -> ImagePreprocess:
        """Return what the preprocessor_config.json beside a model describes.

        Raises ModelError when there is none.
        """
        name = model.origin.model
        path = model.directory / "preprocessor_config.json" if model.directory else None
        if path is None or not path.is_file():
            size_hint = model.image_size[1] if model.image_size else 224
            raise ModelError(
                f"{name} comes without preprocessor_config.json; say how images are prepared, "
                f"for instance --preprocess canonical{size_hint}"
            )
        return preprocess_of_transformers(read_json(path), name)

    def preprocess_in(self, directory: Path) -> ImagePreprocess:
        """Return what the preprocessor_config.json of a directory describes."""
        config = read_json(directory / "preprocessor_config.json")
        return preprocess_of_transformers(config, directory.name)


LOADER = TransformersLoader()


def _describe(
    module: Any,
    origin: Origin,
    architecture: Architecture,
    config: dict[str, Any],
    directory: Path,
) -> LoadedModel:
    family = _family(architecture, config)
    is_text = family.kind == "text"
    return LoadedModel(
        module=module,
        family=family,
        layers=_layers(module, architecture),
        origin=origin,
        call=_call_for(family),
        prefix_tokens=_prefix_tokens(architecture),
        image_size=None if is_text else _image_size(module.config),
        max_length=_max_length(module.config) if is_text else None,
        vocabulary_rows=module.get_input_embeddings().num_embeddings if is_text else None,
        needs_mask=is_text and family.name != DECODER.name,
        config=config,
        directory=directory,
    )


def _load_module(
    checkpoint: Checkpoint, architecture: Architecture, config: dict[str, Any], name: str
) -> Any:
    # Neither a path nor a file is handed over: the library would look for weights, shards and
    # adapters by rules of its own, and these would not be the files that were hashed.
    import transformers

    made: Any = getattr(transformers, architecture.class_name)
    options: dict[str, Any] = dict(architecture.init)
    if architecture.attention:
        options["attn_implementation"] = "sdpa"
    state = checkpoint.read()
    with third_party(f"{name} cannot be loaded as {architecture.class_name}"), _quiet_loading():
        settings = made.config_class.from_dict(config)
        with torch.device("meta"):
            check_size_of(made(copy.deepcopy(settings), **architecture.init), checkpoint.size, name)
        module, report = made.from_pretrained(
            None,
            config=settings,
            state_dict=state,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
    _check_report(name, report, f"{module.base_model_prefix}.")
    return module.eval()


def _check_report(name: str, report: Mapping[str, Any], prefix: str) -> None:
    # in a checkpoint of a whole model the encoder's weights stand behind this prefix
    for key, found, expected in sorted(report["mismatched_keys"]):
        raise ModelError(
            f"{name} has {key} of shape {tuple(found)}, expected {tuple(expected)}; "
            "the weights do not fit the config.json beside them"
        )
    unexpected = {key.removeprefix(prefix) for key in report["unexpected_keys"]}
    check_keys(name, report["missing_keys"], unexpected)


@contextmanager
def _quiet_loading() -> Iterator[None]:
    # The report is read and acted upon above; the library's own table of it is noise.
    from transformers.utils import logging as library

    transformers_logging: Any = library

    before = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)
        if bars:
            transformers_logging.enable_progress_bar()


def _layers(module: nn.Module, architecture: Architecture) -> LayerMap:
    config: Any = module.config
    if architecture.family is CNN:
        blocks = find_blocks(module, len(config.depths))
        return map_layers(module, blocks, final=Tap(FINAL, "pooler"))
    count = next(int(getattr(config, key)) for key in _BLOCK_COUNTS if hasattr(config, key))
    return map_layers(module, find_blocks(module, count))


def _family(architecture: Architecture, config: Mapping[str, Any]) -> Family:
    # A BERT that was trained as a decoder masks causally; a mask for the padding would take the
    # place of that one, so it runs as decoders do.
    if architecture.family is ENCODER and config.get("is_decoder"):
        return CAUSAL_ENCODER
    return architecture.family


def _call_for(family: Family) -> Call:
    if family.name == DECODER.name:
        return _call_decoder
    if family is VIT_MAE:
        return _call_unmasked
    return _call_plain


def _call_plain(module: nn.Module, inputs: Mapping[str, Tensor]) -> None:
    module(**inputs)


def _call_decoder(module: nn.Module, inputs: Mapping[str, Tensor]) -> None:
    # No mask: padding stands on the right, where no real token of a causal model can see it,
    # and without a mask attention takes its fastest kernel.
    module(input_ids=inputs["input_ids"], use_cache=False)


def _call_unmasked(module: nn.Module, inputs: Mapping[str, Tensor]) -> None:
    # This class masks 75 % at random on every call, in eval mode too. With no masking and
    # fixed noise all patches pass, in their order.
    config: Any = module.config
    config.mask_ratio = 0.0
    pixels = inputs["pixel_values"]
    embeddings: Any = module.embeddings
    patches = embeddings.patch_embeddings.num_patches
    noise = torch.arange(patches, dtype=torch.float32, device=pixels.device)
    module(pixel_values=pixels, noise=noise.expand(len(pixels), -1))


def _prefix_tokens(architecture: Architecture) -> int:
    own = architecture.prefix_tokens
    return architecture.family.prefix_tokens if own is None else own


def _image_size(config: Any) -> tuple[int, int, int]:
    size = getattr(config, "image_size", None) or 224
    height, width = (size, size) if isinstance(size, int) else size
    return config.num_channels, height, width


def _max_length(config: Any) -> int | None:
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if limit and config.model_type in ("roberta", "xlm-roberta"):
        # its positions start behind the padding index
        limit -= config.pad_token_id + 1
    return limit
