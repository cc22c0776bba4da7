"""Settings of an extraction, its progress and its result."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from repalign.data.read_options import PANEL as DATA
from repalign.data.read_options import ReadOptions
from repalign.exceptions import InputError
from repalign.files import STDOUT, open_regular
from repalign.models.families import POOLS
from repalign.options import Settings, option

ROWS = "The rows"
RUNNING = "How it runs"
_NAMED = re.compile(r"([A-Za-z0-9_.-]+)=(.+)")
_LONGEST_LIST = 2**24


@dataclass(frozen=True, kw_only=True)
class ViewSettings(Settings):
    """Which rows are taken of a model, and how its images are prepared.

    Empty ``layers`` and ``pools``, and None, mean what the family or the model has itself.
    """

    layers: tuple[str, ...] = option(
        (),
        "final, pre-norm, all, a number (0 enters the first block, -1 is the last block's output, "
        "-2 the one before), or a module's name. Repeat it for several views of one pass.",
        flag="layer",
        short="l",
        panel=ROWS,
        metavar="LAYER",
        repeat=True,
        absent="final",
    )
    pools: tuple[str, ...] = option(
        (),
        "From tokens, patches or positions to rows; may be repeated.",
        flag="pool",
        panel=ROWS,
        choices=POOLS,
        metavar="POOL",
        repeat=True,
        absent="decoders token, encoders and sounds mean, ViTs patch-mean, CNNs avg",
    )
    preprocess: str | None = option(
        None,
        "One preparation of images for both models of a pair: canonical224 (any size), "
        "timm:architecture, hf:repository, or a directory.",
        panel=DATA,
        absent="the model's own",
    )
    image_backend: Literal["pil", "torchvision"] = option(
        "pil",
        "Library that resizes images; the image processors of transformers 5 take torchvision.",
        panel=DATA,
    )
    trust_code: bool = option(
        False,
        "Run the code of path/to/file.py:function, which is yours.",
        panel=RUNNING,
    )
    offline: bool = option(
        False, "Use only what is on this disk; never the network.", panel=RUNNING
    )


@dataclass(frozen=True)
class ExtractSettings(ViewSettings):
    """All settings of `repalign extract`.

    Empty ``layers`` and ``pools``, and None anywhere, mean the family's or machine's default.
    ``batch_size`` counts tokens (padding included) for text and images for images.

    Example:
        >>> from pathlib import Path
        >>> settings = ExtractSettings(
        ...     "hf:EleutherAI/pythia-160m", "corpus.txt", Path("a.h5"), layers=("all",), limit=100
        ... )
        >>> settings.layers, settings.limit
        (('all',), 100)
    """

    model: str
    data: str
    output: Path
    tokens: str = option(
        "all",
        "With --pool token, which tokens or patches become rows: all, last, stride:k, sample:n.",
        panel=ROWS,
    )
    read: ReadOptions = field(default_factory=ReadOptions)
    limit: int | None = option(
        None, "Only the first so many samples.", panel=DATA, least=1, absent="all"
    )
    sample: int | None = option(
        None,
        "Only so many samples, chosen at random by --seed.",
        panel=DATA,
        least=1,
        absent="all",
    )
    max_length: int | None = option(
        None,
        "Cut texts to so many tokens.",
        panel=DATA,
        least=1,
        absent="the model's positions, at most 2048",
    )
    tokenizer: Path | None = option(
        None,
        "Directory with the tokenizer to use.",
        panel=DATA,
        metavar="DIRECTORY",
        absent="the model's own",
    )
    device: str = option(
        "auto",
        "auto, cpu, cuda, cuda:N or mps; auto is the first of CUDA, MPS and the CPU that is there. "
        "A device that was asked for is never replaced by another in silence.",
        panel=RUNNING,
    )
    dtype: Literal["fp32", "tf32", "bf16", "fp16"] = option(
        "fp32",
        "Type of matrix products (tf32 on CUDA); weights and stored rows stay float32.",
        panel=RUNNING,
    )
    weights: Literal["fp32", "bf16"] = option(
        "fp32",
        "Type in which weights are held; bf16, with --dtype bf16, needs half the memory.",
        panel=RUNNING,
    )
    store_dtype: Literal["float32", "float16"] = option(
        "float32", "Type of the stored rows.", panel=RUNNING
    )
    batch_size: int | None = option(
        None,
        "Tokens (or states of sounds) per batch with padding, or images per batch.",
        panel=RUNNING,
        least=1,
        absent="on the CPU 1024, or 8 images of 224×224 and more of smaller ones; elsewhere large, "
        "and halved where memory is short",
    )
    shard_samples: int | None = option(
        None, "Samples per shard.", panel=RUNNING, least=1, absent="up to 1024, about 128 MiB"
    )
    workers: int | None = option(
        None,
        "Threads that decode images and sounds.",
        panel=RUNNING,
        least=1,
        absent="one per core",
    )
    seed: int = option(
        0, "Seed of everything that is random; same seed, same result.", panel=DATA, least=0
    )
    with_ids: bool = option(
        True, "Store no sample ids, which may identify people.", flag="no-ids", panel=DATA
    )
    overwrite: bool = option(False, "Replace the output if it exists.", panel=RUNNING)


def settings_of_list(path: Path, folder: Path, settings: ExtractSettings) -> list[ExtractSettings]:
    """Return the settings of every model of a list, whose stores lie in a folder.

    A line is ``MODEL`` or ``NAME=MODEL``, empty, or begins with #. Without a name a store is
    called after its model, with dashes for what no file name should hold.

    Raises:
        InputError: It is no text of reasonable size, there are none, two stores would have one
            name, or the folder is a file.
    """
    if folder == STDOUT or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder}: not a folder; expected one for the stores of --models")
    with open_regular(path) as file:
        content = file.read(_LONGEST_LIST + 1)
    if len(content) > _LONGEST_LIST:
        raise InputError(f"{path}: holds more than {_LONGEST_LIST >> 20} MiB, expected a list")
    try:
        lines = [line.strip() for line in content.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text; expected one model a line") from error
    models: dict[str, str] = {}
    for line in lines:
        if not line or line.startswith("#"):
            continue
        match = _NAMED.fullmatch(line)
        name = re.sub(r"[^A-Za-z0-9_.]+", "-", line).strip("-.") or "model"
        name, model = (match[1], match[2]) if match else (name, line)
        if name in models:
            raise InputError(
                f"{path}: two stores would be called {name}.h5; name them, as NAME={model}"
            )
        models[name] = model
    if not models:
        raise InputError(f"{path}: holds no models; expected one a line, MODEL or NAME=MODEL")
    return [
        replace(settings, model=model, output=folder / f"{name}.h5")
        for name, model in models.items()
    ]


@dataclass(frozen=True)
class Speed:
    """The tokens, images or sounds of one process, and its seconds."""

    n_units: int
    unit: str
    seconds: float

    @property
    def rate(self) -> float:
        """The units of a second."""
        return self.n_units / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        """The units of a second, in words."""
        rate = self.rate
        return f"{rate:,.0f} {self.unit}/s" if rate >= 10 else f"{rate:.2g} {self.unit}/s"


@dataclass(frozen=True)
class ExtractProgress:
    """How far an extraction has come: samples, rows, and how fast.

    Of several processes or stores, ``workers`` has the speed of each process and ``stores`` says
    how many stores are done, and of how many.
    """

    samples_done: int
    samples_total: int
    rows: int
    speed: Speed
    workers: tuple[tuple[str, Speed], ...] = ()
    stores: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class ExtractResult:
    """The result of an extraction.

    ``path`` is the finished store, or its directory of shards while other processes still
    write theirs (``is_complete`` is false then). ``rows_new`` were made by this process, with
    this ``speed``. ``n_cut`` of the samples that this process read were longer than the model
    takes.
    """

    path: Path
    is_complete: bool
    n_rows: int | None
    fingerprint: str | None
    views: dict[str, int]
    rows_new: int
    samples: int
    speed: Speed
    device: str
    n_cut: int = 0
    warnings: tuple[str, ...] = ()
