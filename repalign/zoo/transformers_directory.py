"""Writing a model as transformers does, without its progress bar."""

from pathlib import Path
from typing import Any


def save_quietly(module: Any, directory: Path) -> None:
    """Write config.json and model.safetensors."""
    from transformers.utils import logging as library

    transformers_logging: Any = library
    had_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        module.save_pretrained(directory)
    finally:
        if had_bars:
            transformers_logging.enable_progress_bar()
