"""Repositories of the hub, and offline mode."""

import os
import re
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repalign.exceptions import ModelError, first_line
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


@dataclass(frozen=True)
class _HubOffline(Setting):
    """Whether the hub library keeps from the network."""

    def read(self) -> bool:
        return bool(_constants().HF_HUB_OFFLINE)

    def write(self, value: bool) -> None:
        _constants().HF_HUB_OFFLINE = value


def _constants() -> Any:
    from huggingface_hub import constants

    return constants


def offline_mode() -> AbstractContextManager[None]:
    """Keep the hub library from the network inside the block."""
    return holding({_HubOffline(): True})


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
