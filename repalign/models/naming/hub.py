"""Bringing a hub repository's files to this disk, and staying offline when asked."""

import importlib
import logging
import os
import re
import ssl
import sys
import urllib.error
import urllib.request
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repalign.exceptions import ModelError, first_line
from repalign.models.loaders.files import PICKLES, SAFETENSORS, read_list, shard_names
from repalign.process_state import LoggerLevel, Setting, holding

OPEN_CLIP_CONFIG = "open_clip_config.json"
OPEN_CLIP_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
PROBE_SECONDS = 5
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_TRUE = {"1", "on", "true", "yes"}
_SMALL_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spiece.model",
    "preprocessor_config.json",
    "processor_config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)


def is_offline() -> bool:
    """Whether the environment asks for no network."""
    return any(os.environ.get(name, "").lower() in _TRUE for name in _OFFLINE)


def prepare_environment(*, offline: bool) -> None:
    """Set what the hub library reads when it is imported; call before loading any model.

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


@dataclass(frozen=True)
class _HubOffline(Setting):
    """Whether the hub library keeps from the network."""

    def _constants(self) -> Any:
        return importlib.import_module("huggingface_hub.constants")

    def read(self) -> bool:
        return bool(self._constants().HF_HUB_OFFLINE)

    def write(self, value: bool) -> None:
        self._constants().HF_HUB_OFFLINE = value


def nothing_fetched() -> AbstractContextManager[None]:
    """Keep the hub library from the network, whatever a config makes it look for."""
    return holding({_HubOffline(): True})


def is_reachable() -> bool:
    """Return whether the hub answers within seconds; its library retries for a minute."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    request = urllib.request.Request(constants.ENDPOINT, method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=PROBE_SECONDS).close()
    except urllib.error.HTTPError:
        return True  # it answered
    except urllib.error.URLError as failure:
        return isinstance(failure.reason, ssl.SSLError)  # the library may know other certificates
    except OSError:
        return False
    return True


def fetch_repository(name: str, revision: str | None, *, weights: bool = True) -> Path:
    """Return the local snapshot directory of a hub repository, downloading what is missing.

    safetensors are preferred; a pickle file is fetched only where there are none. Where the hub
    cannot be reached, the cache alone is asked.

    Raises ModelError when the repository cannot be reached or holds no weights.
    """
    if is_offline():
        return _fetch_repository(name, revision, weights, "offline and not in the cache")
    if is_reachable():
        return _fetch_repository(name, revision, weights, "not found")
    with nothing_fetched():
        return _fetch_repository(name, revision, weights, "not in the cache, and no network")


def _fetch_repository(name: str, revision: str | None, weights: bool, reason: str) -> Path:
    """Fetch a repository; ``reason`` says why it may be missing."""
    config = _fetch(name, revision, "config.json")
    candidates: tuple[tuple[str, ...], ...] = (SAFETENSORS, PICKLES)
    if config is None:
        config = _fetch(name, revision, OPEN_CLIP_CONFIG)
        candidates = (OPEN_CLIP_WEIGHTS[:1], OPEN_CLIP_WEIGHTS[1:])
    if config is None:
        at = f" at revision {revision}" if revision else ""
        raise ModelError(
            f"no config.json for {name}{at}: {reason}; check the name, or give a local directory"
        )
    if weights:
        _fetch_weights(name, revision, candidates)
    for file in _SMALL_FILES:
        _fetch(name, revision, file)
    _fetch_modules(name, revision)
    return config.parent


def _fetch_modules(name: str, revision: str | None) -> None:
    """Fetch the folders of a repository of sentence-transformers."""
    modules = _fetch(name, revision, "modules.json")
    for entry in read_list(modules) if modules is not None else ():
        folder = str(entry.get("path") or "")
        # what leads elsewhere is refused when it is loaded
        if folder and "/" not in folder and _fetch(name, revision, f"{folder}/config.json"):
            _fetch(name, revision, f"{folder}/model.safetensors") or _fetch(
                name, revision, f"{folder}/pytorch_model.bin"
            )


def snapshot_commit(directory: Path) -> str | None:
    """Commit of a snapshot directory of the hub's cache, None for any other directory."""
    is_commit = re.fullmatch(r"[0-9a-f]{40}", directory.name) is not None
    return directory.name if is_commit and directory.parent.name == "snapshots" else None


def _fetch(name: str, revision: str | None, file: str) -> Path | None:
    from transformers.utils.hub import cached_file

    try:
        # its retries are warnings, several lines for what becomes one error below
        with holding({LoggerLevel("huggingface_hub"): logging.ERROR}):
            path = cached_file(
                name,
                file,
                revision=revision,
                local_files_only=is_offline(),
                _raise_exceptions_for_missing_entries=False,
                _raise_exceptions_for_connection_errors=False,
            )
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot fetch {file} of {name}: {first_line(error)}") from error
    return None if path is None else Path(path)


def _fetch_weights(
    name: str, revision: str | None, candidates: tuple[tuple[str, ...], ...]
) -> None:
    for files in candidates:
        found = [path for file in files if (path := _fetch(name, revision, file))]
        if found:
            _fetch_shards(name, revision, found[0])
            return
    raise ModelError(f"{name} holds no safetensors or PyTorch weights; try another revision")


def _fetch_shards(name: str, revision: str | None, index: Path) -> None:
    if index.suffix != ".json":
        return
    for shard in shard_names(index, name):
        if _fetch(name, revision, shard) is None:
            raise ModelError(f"{name} lacks the shard {shard} that its index names")
