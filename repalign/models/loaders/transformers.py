"""Encoders saved in the transformers format, from a directory on this disk."""

import copy
import inspect
import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from repalign.exceptions import InputError, ModelError, reading
from repalign.models.inputs.images import (
    ImagePreprocess,
    as_list,
    image_size_in,
    preprocess_of_transformers,
)
from repalign.models.loaders.boundary import MODEL_ERRORS
from repalign.models.loaders.config_policy import check_config, check_size_of, mapping_in
from repalign.models.loaders.families import ARCHITECTURES, TOWERS, Architecture
from repalign.models.loaders.files import Checkpoint, read_json
from repalign.models.loaders.loaded import LoadedModel, Origin
from repalign.models.loaders.loader import Loader
from repalign.models.loaders.weights import check_keys
from repalign.models.naming.hub import nothing_fetched, snapshot_commit
from repalign.models.structure.images import read_image_structure
from repalign.models.structure.known import known_structure
from repalign.models.structure.sounds import read_sound_structure
from repalign.models.structure.texts import read_text_structure
from repalign.process_state import LoggerLevel, Setting, holding


class TransformersLoader(Loader):
    """Encoders of transformers, from directories as its ``save_pretrained`` writes them."""

    def claims(self, path: Path) -> bool:
        """Whether it is a directory; what its config.json says is looked at when it is loaded."""
        return path.is_dir()

    def load_path(
        self, path: Path, name: str, revision: str | None = None, part: str | None = None
    ) -> LoadedModel:
        """Load the encoder of a checkpoint in float32, on the CPU, in eval mode.

        Raises ModelError for types that the library does not have, for missing, unexpected or
        misshapen weights, and for files that cannot be read safely.
        """
        config = read_json(path / "config.json")
        architecture = ARCHITECTURES.get(check_config(config, name))
        checkpoint = Checkpoint(path, name)
        others = TOWERS.get(config["model_type"], {}).keys() - {part}
        made, config = _class_of(config, part, name)
        with _quiet_loading(), nothing_fetched():
            module = _load_module(checkpoint, made, config, name, others)
        origin = Origin(
            model=name if part is None else f"{name}::{part}",
            loader="transformers",
            class_name=made.__name__,
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
        return preprocess_of_transformers(read_json(path), name, model.config.get("model_type"))

    def preprocess_in(self, directory: Path) -> ImagePreprocess:
        """Return what the preprocessor_config.json of a directory describes."""
        config = read_json(directory / "preprocessor_config.json")
        path = directory / "config.json"
        model_type = read_json(path).get("model_type") if path.is_file() else None
        return preprocess_of_transformers(config, directory.name, model_type)


LOADER = TransformersLoader()


def _describe(
    module: Any,
    origin: Origin,
    architecture: Architecture | None,
    config: dict[str, Any],
    directory: Path,
) -> LoadedModel:
    takes = module.main_input_name
    is_text = takes == "input_ids"
    size = _image_size(module.config, origin.model) if takes == "pixel_values" else None
    if architecture is not None:
        structure = known_structure(module, architecture, config)
    elif is_text:
        structure = read_text_structure(module, origin.model)
    elif size is not None:
        structure = read_image_structure(module, origin.model, size)
    elif takes in ("input_values", "input_features"):
        structure = read_sound_structure(module, origin.model)
    else:
        raise ModelError(f"{origin.model} takes {takes}, and neither texts, images nor sounds")
    return LoadedModel(
        **vars(structure),
        module=module,
        origin=origin,
        image_size=size,
        max_length=_max_length(module) if is_text else None,
        vocabulary_rows=module.get_input_embeddings().num_embeddings if is_text else None,
        config=config,
        directory=directory,
    )


def _class_of(config: dict[str, Any], part: str | None, name: str) -> tuple[Any, dict[str, Any]]:
    """Return the class of the encoder that a config describes, and the config of that class.

    Raises InputError when it has two encoders and none was chosen, or the other way round.
    """
    import transformers
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES,
        MODEL_MAPPING_NAMES,
    )

    model_type = config["model_type"]
    towers = TOWERS.get(model_type, {})
    if (part in towers) != bool(towers) or (part is not None and not towers):
        offered = " or ".join(f"{name}::{tower}" for tower in towers) or name
        raise InputError(f"{name} is of model type {model_type}; expected {offered}")
    if part is not None:
        return getattr(transformers, towers[part]), mapping_in(config, f"{part}_config", name)
    if model_type in ARCHITECTURES:
        return getattr(transformers, ARCHITECTURES[model_type].class_name), config
    found = MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES.get(model_type, MODEL_MAPPING_NAMES[model_type])
    if not isinstance(found, str):
        raise ModelError(f"{name} is of model type {model_type}, which has no single encoder")
    return getattr(transformers, found), config


def _load_module(
    checkpoint: Checkpoint, made: Any, config: dict[str, Any], name: str, towers: Iterable[str]
) -> Any:
    """Load an encoder, leaving out the weights of other ``towers`` of its checkpoint."""
    # Neither a path nor a file is handed over: the library would look for weights, shards and
    # adapters by rules of its own, and these would not be the files that were hashed.
    init: dict[str, Any] = {}
    if "add_pooling_layer" in inspect.signature(made.__init__).parameters:
        init["add_pooling_layer"] = False
    options = {"attn_implementation": "sdpa"} if getattr(made, "_supports_sdpa", False) else {}
    others = tuple(f"{tower}_model." for tower in towers)
    state = {k: v for k, v in checkpoint.read().items() if not k.startswith(others)}
    with _building(name, made):
        settings = made.config_class.from_dict(config)
        with torch.device("meta"):
            outline = made(copy.deepcopy(settings), **init)
    check_size_of(outline, checkpoint.size, name)
    with _building(name, made):
        module, report = made.from_pretrained(
            None,
            config=settings,
            state_dict=state,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **init,
            **options,
        )
    _check_report(name, report, module.base_model_prefix)
    # the decoder of a T5 or BART has no states of its own for a text
    return (module.get_encoder() if module.config.is_encoder_decoder else module).eval()


def _building(name: str, made: Any) -> AbstractContextManager[None]:
    """Map what transformers raises for values of a config, at its call."""
    from huggingface_hub.errors import StrictDataclassError

    problem = f"cannot be loaded as {made.__name__}"
    return reading(name, *MODEL_ERRORS, StrictDataclassError, failure=ModelError, problem=problem)


def _check_report(name: str, report: Mapping[str, Any], base: str) -> None:
    prefix = f"{base}."
    # in a checkpoint of a whole model the encoder's weights stand behind this prefix
    for key, found, expected in sorted(report["mismatched_keys"]):
        raise ModelError(
            f"{name} has {key} of shape {tuple(found)}, expected {tuple(expected)}; "
            "the weights do not fit the config.json beside them"
        )
    unexpected = {key.removeprefix(prefix) for key in report["unexpected_keys"]}
    # a vector that stands for masked sounds while a wav2vec2 is trained, and never afterwards
    missing = {key for key in report["missing_keys"] if not key.endswith("masked_spec_embed")}
    check_keys(name, missing, unexpected)


@dataclass(frozen=True)
class _ProgressBars(Setting):
    """Whether transformers shows progress bars."""

    def read(self) -> bool:
        return bool(_library_logging().is_progress_bar_enabled())

    def write(self, value: bool) -> None:
        library = _library_logging()
        (library.enable_progress_bar if value else library.disable_progress_bar)()


def _library_logging() -> Any:
    from transformers.utils import logging as library

    return library


def _quiet_loading() -> AbstractContextManager[None]:
    # The report is read and acted upon above; the library's own table of it is noise.
    _library_logging().get_verbosity()  # sets the level where that was not done before
    return holding({LoggerLevel("transformers"): logging.CRITICAL, _ProgressBars(): False})


def _image_size(config: Any, name: str) -> tuple[int, int, int]:
    size = getattr(config, "image_size", None) or 224
    sides = (size, size) if isinstance(size, int) else size
    channels = getattr(config, "num_channels", None)
    return image_size_in({"input_size": (channels, *as_list(sides))}, name)


def _max_length(module: Any) -> int | None:
    config = module.config
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    for name, part in module.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding):
            # RoBERTa and its like count positions from behind the padding index
            taken = 0 if part.padding_idx is None else part.padding_idx + 1
            limit = min(limit or part.num_embeddings, part.num_embeddings - taken)
    return limit if isinstance(limit, int) and limit > 0 else None
