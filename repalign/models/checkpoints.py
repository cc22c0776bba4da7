"""Files of checkpoints: fetched from the hub, read safely, every weight accounted for."""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from repalign.damage_errors import PICKLE_ERRORS
from repalign.exceptions import ModelError, first_line, reading
from repalign.files import file_sha256, open_regular
from repalign.printable import byte_size
from repalign.process_state import Setting, holding

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_TRUE = {"1", "on", "true", "yes"}
_SETTINGS = ("*.json", "*.txt", "*.model", "*.jinja")
# Weights in the formats of transformers and timm, of open_clip, and of parts of sentence encoders.
_SAFETENSORS = (
    "model.safetensors",
    "model-*.safetensors",
    "open_clip_model.safetensors",
    "[0-9]_*/model.safetensors",
)
_PICKLES = (
    "pytorch_model.bin",
    "pytorch_model-*.bin",
    "open_clip_pytorch_model.bin",
    "[0-9]_*/pytorch_model.bin",
)


def is_offline() -> bool:
    """Return whether the environment asks for no network."""
    return any(os.environ.get(name, "").lower() in _TRUE for name in _OFFLINE)


def prepare_environment(*, offline: bool) -> None:
    """Set what the hub library reads when it is imported.

    Call it before loading any model.

    Offline mode holds from then on for the whole process, also where the library was imported
    before and would not look again.
    """
    # Without it, repositories that hold only pickle files start a conversion in the background.
    os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    # Compiled parts of some models would be fetched from the hub and run.
    os.environ.setdefault("USE_HUB_KERNELS", "0")
    if offline or is_offline():
        os.environ["HF_HUB_OFFLINE"] = "1"
        constants: Any = sys.modules.get("huggingface_hub.constants")
        if constants is not None:
            constants.HF_HUB_OFFLINE = True


def offline_mode() -> AbstractContextManager[None]:
    """Keep the hub library from the network inside the block."""
    from huggingface_hub import constants

    name = "HF_HUB_OFFLINE"
    is_offline = Setting(name, partial(getattr, constants, name), partial(setattr, constants, name))
    return holding({is_offline: True})


def fetch_repository(name: str, revision: str | None, *, weights: bool = True) -> Path:
    """Return the local snapshot directory of a hub repository, downloading what is missing.

    safetensors are preferred; a pickle file is fetched only where there are none. Where the hub
    cannot be reached, its cache is used.

    Raises ModelError when the repository cannot be reached or holds no weights.
    """
    directory = _fetch(name, revision, _SETTINGS)
    if weights:
        for patterns in (_SAFETENSORS, _PICKLES):
            _fetch(name, revision, patterns)
            if any(path for pattern in patterns for path in directory.glob(pattern)):
                break
        else:
            raise ModelError(
                f"{name} holds no safetensors or PyTorch weights; try another revision"
            )
    return directory


def _fetch(name: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    at = f"{name} at revision {revision}" if revision else name
    try:
        directory = snapshot_download(
            name, revision=revision, allow_patterns=list(patterns), local_files_only=is_offline()
        )
    except LocalEntryNotFoundError as error:
        reason = "offline mode is on" if is_offline() else "no network"
        raise ModelError(
            f"{at}: not in the cache, and {reason}; check the name, or use a local directory"
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise ModelError(f"{at}: cannot be fetched ({first_line(error)})") from error
    return Path(directory)


def snapshot_commit(directory: Path) -> str | None:
    """Return the commit of a directory of the hub's cache, else None."""
    is_commit = re.fullmatch(r"[0-9a-f]{40}", directory.name) is not None
    return directory.name if is_commit and directory.parent.name == "snapshots" else None


SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_MAX_CONFIG, _MAX_INDEX = 2**20, 2**26
_SHARD = re.compile(r"\w[\w.-]{0,200}", re.ASCII)
# What a library may open in a directory that it is given.
_OPENED = {".json", ".jinja", ".txt", ".model", ".safetensors", ".bin", ".pt", ".pth"}
# Heads and decoders that a checkpoint may hold next to its encoder. Anything else that the
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
# Each layer costs time to build before any weight is looked at; the deepest models have hundreds,
# and a name is made for every label.
_MOST = {"layers": 1024, "labels": 2**20}
_REPEATED = re.compile(r"(^|_)(n_?)?(layers?|depths?|blocks?|stages?|repeats?|experts?)$")


def read_json(path: Path, *, limit: int = _MAX_CONFIG) -> dict[str, Any]:
    """Read a small JSON object from a regular file.

    Raises ModelError when the file is missing, large, not a regular file, or not an object.
    """
    value = read_json_value(path, limit)
    if not isinstance(value, dict):
        raise ModelError(f"{path.name} holds a {type(value).__name__}, expected an object")
    return value


def read_json_value(path: Path, limit: int = _MAX_CONFIG) -> Any:
    """Read a small JSON file.

    Raises ModelError as ``read_json``.
    """
    if not path.exists():
        raise ModelError(
            f"no {path.name} in {path.parent.name}/; give a directory saved by transformers "
            "(save_pretrained) or in timm's format"
        )
    with open_regular(path, failure=ModelError) as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise ModelError(f"{path.name} is larger than {byte_size(limit)}, too large for a config")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path.name} in {path.parent.name}/ is not readable JSON") from error


def mapping_in(config: Mapping[str, Any], key: str, source: str) -> dict[str, Any]:
    """Return an object of a config, empty where it is absent.

    Raises ModelError for a value of another kind.
    """
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ModelError(f"the config of {source} says {key} {value!r}; expected an object")
    return dict(value)


def check_depth(key: str, value: object, source: str) -> None:
    """Refuse a number of layers that would take for ever to build.

    Raises ModelError naming the field.
    """
    limit = _MOST["labels"] if key == "num_labels" else _MOST["layers"]
    if key != "num_labels" and not _REPEATED.search(key):
        return
    numbers = value if isinstance(value, list | tuple) else [value]
    total = sum(number for number in numbers if isinstance(number, int))
    if total > limit:
        raise ModelError(f"the config of {source} says {key} {total}; at most {limit} is built")


def check_directory(directory: Path) -> None:
    """Refuse a directory with links to outside, or files that are not regular.

    A snapshot of the hub's cache consists of links into the blobs of that cache.

    Raises ModelError naming the file.
    """
    inside = directory.resolve()
    blobs = inside.parent.parent / "blobs" if inside.parent.name == "snapshots" else inside
    for path in sorted(directory.iterdir()):
        target = path.resolve()
        if path.suffix.lower() not in _OPENED or not target.exists():
            continue  # a link to nothing is as good as no file
        if not (target.is_file() or target.is_dir()):
            raise ModelError(f"{path.name} in {directory.name}/ is not a regular file; remove it")
        if not (target.is_relative_to(inside) or target.is_relative_to(blobs)):
            raise ModelError(
                f"{path.name} in {directory.name}/ is a link to outside of that directory; "
                "put a copy there, or give the directory that it leads to"
            )


def weight_files(
    directory: Path, name: str, candidates: tuple[str, ...] = (*SAFETENSORS, *PICKLES)
) -> list[Path]:
    """Return the weights files in a directory: one, or shards and their index.

    Raises ModelError when there are none, or when an index names a file that is not there.
    """
    check_directory(directory)
    first = next((directory / f for f in candidates if (directory / f).is_file()), None)
    if first is None:
        raise ModelError(
            f"{name} has a config and no weights; expected one of {', '.join(candidates)}"
        )
    if first.suffix != ".json":
        return [first]
    places = read_json(first, limit=_MAX_INDEX).get("weight_map")
    if not isinstance(places, Mapping) or not places:
        raise ModelError(f"{first.name} of {name} has no weight_map; expected an index of shards")
    shards = sorted({str(shard) for shard in places.values()})
    for shard in shards:
        if not _SHARD.fullmatch(shard):
            raise ModelError(
                f"{first.name} of {name} names a shard {shard!r} outside its directory"
            )
        if not (directory / shard).is_file():
            raise ModelError(f"{name} lacks the shard {shard} that its index names")
    return [*(directory / shard for shard in shards), first]


def hash_files(paths: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of files by their names."""
    return {path.name: file_sha256(path) for path in paths}


def read_state_dict(path: Path) -> dict[str, torch.Tensor]:
    """Read the tensors of a weights file by name.

    A wrapper such as ``{"model": …}`` or ``{"state_dict": …}`` is opened and a common prefix
    ``module.`` is removed. Pickle files are read with ``weights_only=True`` and nothing else;
    ``argparse.Namespace``, which training scripts store with the weights, is accepted.

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


def unsafe_pickle(name: str, error: Exception) -> ModelError:
    """Return the error for a pickle file that is damaged or runs code."""
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
    for keys, problem in ((missing, "lacks encoder weights"), (unknown, "has unexpected weights")):
        if keys:
            further = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
            raise ModelError(
                f"{source} {problem}: {', '.join(keys[:_SHOWN])}{further}; "
                "the file does not fit this architecture, give the checkpoint that belongs to it"
            )


def is_head(key: str) -> bool:
    """Return whether a weight is of a head or decoder, or follows from the config."""
    return _HEADS.match(key) is not None or _DERIVED.search(key) is not None


def build_filled(
    build: Callable[[], torch.nn.Module], state: Mapping[str, torch.Tensor], source: str
) -> torch.nn.Module:
    """Build a module in float32 and load a state dict into it.

    It is built without memory first, so that nothing is allocated that the weights do not fill.

    Raises ModelError naming missing, unexpected or misshapen weights.
    """
    with torch.device("meta"):
        expected = build().state_dict()
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
    module = build()
    # on top of the module's own, which knows the versions of its parts
    weights = module.state_dict()
    weights.update({key: state[key] for key in expected.keys() & state.keys()})
    with reading(source, RuntimeError, failure=ModelError, problem="cannot be loaded"):
        module.load_state_dict(weights)
    return module.float().eval()
