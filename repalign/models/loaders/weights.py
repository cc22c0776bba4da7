"""Weights files: safetensors first, pickle only through weights_only, every key accounted for."""

import argparse
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch

from repalign.damage_errors import PICKLE_ERRORS, ZIP_ERRORS
from repalign.exceptions import ModelError, reading
from repalign.models.loaders.config_policy import check_size_of

# Heads and decoders that a checkpoint may carry beside its encoder. Anything else that the
# encoder does not expect is an error: it is more likely a wrong architecture than a head.
_HEADS = re.compile(
    r"(lm_head|embed_out|cls|pooler|classifier|score|qa_outputs|decoder|head|fc|fc_norm|"
    r"mask_token|distillation_classifier|cls_classifier|qa_classifier|vocab_projector|"
    r"vocab_transform|vocab_layer_norm|predictions|sop_classifier|lm_predictions|"
    r"mask_predictions|discriminator_predictions|generator_predictions|generator_lm_head|"
    r"quantizer|project_q|project_hid|proj_out|"
    r"logit_scale|logit_bias|visual_projection|text_projection)(\.|_|$)"
)
# Values that old checkpoints stored although they follow from the config.
_DERIVED = re.compile(
    r"(rotary_emb\.inv_freq|attn\.(masked_)?bias|attention\.(masked_)?bias|position_ids)$"
)
_SHOWN = 4


def read_state_dict(path: Path) -> dict[str, torch.Tensor]:
    """Read the tensors of a checkpoint by name.

    A wrapper such as ``{"model": …}`` or ``{"state_dict": …}`` is opened and a common prefix
    ``module.`` is removed. Pickle files are read with ``weights_only=True`` and nothing else;
    ``argparse.Namespace``, which training scripts store beside the weights, is let through.

    Raises ModelError when the file cannot be read that way.
    """
    loaded = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
    for key in ("model", "state_dict"):
        inner = loaded.get(key)
        if isinstance(inner, Mapping):
            loaded = inner
            break
    tensors = {
        str(key).removeprefix("module."): value
        for key, value in loaded.items()
        if isinstance(value, torch.Tensor)
    }
    if not tensors:
        raise ModelError(f"{path.name} holds no tensors by name; give a state dict checkpoint")
    return tensors


def _read_safetensors(path: Path) -> Mapping[str, object]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    # KeyError of a type that torch does not have
    errors = (SafetensorError, KeyError, OSError, RuntimeError, ValueError)
    with reading(path.name, *errors, failure=ModelError, problem="not a readable safetensors file"):
        return load_file(path)


def _read_pickle(path: Path) -> Mapping[str, object]:
    _check_stored(path)
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except PICKLE_ERRORS as error:
        raise unsafe_pickle(path.name, error) from error
    if not isinstance(loaded, Mapping):
        raise ModelError(
            f"{path.name} holds a {type(loaded).__name__}, not a state dict; "
            "save model.state_dict()"
        )
    return loaded


def _check_stored(path: Path) -> None:
    # torch stores tensors as they are; a packed archive could become any size
    packed = []
    with reading(path.name, *ZIP_ERRORS, failure=ModelError, problem="not a readable checkpoint"):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                packed = [entry.filename for entry in archive.infolist() if entry.compress_type]
    if packed:
        raise ModelError(f"{path.name} is a compressed archive, which torch does not write")


def unsafe_pickle(name: str, error: Exception) -> ModelError:
    """Return the error for a pickle file that is damaged or wants to run code."""
    # torch's own advice is to load without the safeguard, which runs the code: it is not passed on
    return ModelError(
        f"{name} cannot be read as weights only ({type(error).__name__}): it is damaged, or would "
        "run code when loaded, which is refused; convert it to safetensors where it was made"
    )


def check_keys(source: str, missing: Iterable[str], unexpected: Iterable[str]) -> None:
    """Refuse a checkpoint that lacks encoder weights or holds unknown ones.

    Raises ModelError naming the first of them. Heads and decoders may be present.
    """
    missing, unknown = sorted(missing), sorted(k for k in unexpected if not is_head(k))
    for keys, what in ((missing, "lacks encoder weights"), (unknown, "has unexpected weights")):
        if keys:
            more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
            raise ModelError(
                f"{source} {what}: {', '.join(keys[:_SHOWN])}{more}; "
                "the file does not fit this architecture, give the checkpoint that belongs to it"
            )


def is_head(key: str) -> bool:
    """Whether a weight belongs to a head or a decoder, or is no weight but a derived value."""
    return _HEADS.match(key) is not None or _DERIVED.search(key) is not None


def build_filled(
    build: Callable[[], torch.nn.Module], state: Mapping[str, torch.Tensor], source: str
) -> torch.nn.Module:
    """Build a module and load a state dict into it; nothing is allocated that weights do not fill.

    ``build`` maps what its library raises.

    Raises ModelError as ``load_strictly``, before the module takes memory.
    """
    with torch.device("meta"):
        outline = build()
    _check_shapes(outline.state_dict(), state, source)
    # what the shapes do not say: a tensor may be an expanded view of a few bytes
    parts = [tensor.untyped_storage() for tensor in state.values()]
    storages = {part.data_ptr(): part.nbytes() for part in parts}
    check_size_of(outline, sum(storages.values()), source)
    module = build()
    load_strictly(module, state, source)
    return module


def load_strictly(module: torch.nn.Module, state: Mapping[str, torch.Tensor], source: str) -> None:
    """Load a state dict into a module; every encoder weight must be there and fit.

    Raises ModelError naming missing, unexpected or misshapen weights.
    """
    expected = module.state_dict()
    _check_shapes(expected, state, source)
    # on top of the module's own, which knows the versions of its parts
    expected.update({key: state[key] for key in expected.keys() & state})
    with reading(source, RuntimeError, failure=ModelError, problem="cannot be loaded"):
        module.load_state_dict(expected)


def _check_shapes(
    expected: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], source: str
) -> None:
    shapes = [
        f"{key} is {tuple(state[key].shape)}, expected {tuple(expected[key].shape)}"
        for key in expected.keys() & state.keys()
        if state[key].shape != expected[key].shape
    ]
    if shapes:
        raise ModelError(
            f"{source} has weights of another shape: {'; '.join(sorted(shapes)[:_SHOWN])}; "
            "the file does not fit this architecture"
        )
    # a counter of training steps, which old checkpoints lack and evaluation never reads
    missing = {k for k in expected.keys() - state.keys() if not k.endswith("num_batches_tracked")}
    check_keys(source, missing, state.keys() - expected.keys())
