"""What a workflow may use of the machine, and its progress callback."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from repalign.core.rows import Limits, OnProgress
from repalign.exceptions import InputError
from repalign.options import LARGEST_COUNT

OnStage = Callable[[str, int, int], None]

UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def ignore_stage(stage: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Machine:
    """Device, cap on working memory, and the callback of progress: (stage, done, total)."""

    device: str = "cpu"
    memory_bytes: int = 2 * 2**30
    on_stage: OnStage = ignore_stage

    def limits(self, stage: str) -> Limits:
        """Return what every computation over rows takes: memory, device and progress."""
        return {
            "memory_bytes": self.memory_bytes,
            "device": self.device,
            "on_progress": self.on_progress(stage),
        }

    def on_progress(self, stage: str) -> OnProgress:
        """Return the callback for one stage, which takes (done, total)."""
        return partial(self.on_stage, stage)


def parse_memory(text: str, name: str = "memory") -> int:
    """Return the bytes of a size such as ``2GiB``, ``500 MB`` or ``1e9``.

    Args:
        text: The size.
        name: What asks for it, for messages.

    Raises:
        InputError: It is not such a size.
    """
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?)i?b?\s*", text, re.IGNORECASE)
    size = 0.0
    if match is not None:
        with suppress(ValueError):
            size = float(match[1]) * UNITS[match[2].lower()]
    if not 0 < size < LARGEST_COUNT:
        raise InputError(f"{name}: got {text!r}, expected a size such as 2GiB or 500MiB")
    return int(size)
