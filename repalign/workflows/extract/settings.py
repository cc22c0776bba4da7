"""What an extraction is asked to do, and what came of it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from repalign.data.open_data import ReadOptions

Autocast = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class ExtractSettings:
    """Everything that `repalign extract` can be told.

    Empty ``layers`` and ``pools``, and None anywhere, mean the family's or machine's default.
    ``batch_size`` counts tokens (padding included) for text and images for images.
    """

    model: str
    data: str
    output: Path
    layers: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    tokens: str = "all"
    read: ReadOptions = field(default_factory=ReadOptions)
    limit: int | None = None
    sample: int | None = None
    max_length: int | None = None
    tokenizer: Path | None = None
    preprocess: str | None = None
    image_backend: Literal["pil", "torchvision"] = "pil"
    device: str = "auto"
    dtype: Autocast = "fp32"
    store_dtype: Literal["float32", "float16"] = "float32"
    compression: Literal["gzip", "blosc2"] | None = None
    batch_size: int | None = None
    shard_samples: int | None = None
    workers: int | None = None
    seed: int = 0
    with_ids: bool = True
    offline: bool = False
    overwrite: bool = False
    verify_device: bool = False


@dataclass(frozen=True)
class ExtractProgress:
    """How far an extraction has come, in this process: samples, rows, tokens, seconds."""

    samples_done: int
    samples_total: int
    rows: int
    tokens: int
    seconds: float


@dataclass(frozen=True)
class ExtractResult:
    """What an extraction left behind.

    ``path`` is the finished store, or its directory of shards while other processes still
    write theirs (``is_complete`` is false then). ``rows_new`` were made by this process;
    ``tokens`` and ``seconds`` are of these. ``device_difference`` is the largest deviation of
    verified rows from the CPU over their root mean square, None without verification.
    """

    path: Path
    is_complete: bool
    n_rows: int | None
    fingerprint: str | None
    views: dict[str, int]
    rows_new: int
    samples: int
    tokens: int
    seconds: float
    device: str
    device_difference: float | None = None
    warnings: tuple[str, ...] = ()
