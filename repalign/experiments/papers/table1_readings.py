"""What the paper leaves open of its Table 1: which layer, which rows of it, of which models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from repalign.exceptions import InputError
from repalign.experiments.reproduce.experiment import Case
from repalign.experiments.reproduce.given_data import GivenData, digest_of
from repalign.experiments.table_one_pairs import IMAGES, TEXT, Extraction, StoredPair

Kind = Literal["text", "images"]
COMES_ALONG = "a text of Shakespeare and scikit-learn's digits"
_ENTRIES: Mapping[Kind, str] = {"text": "text", "images": "images"}
_BUILTIN: Mapping[Kind, str] = {"text": TEXT, "images": IMAGES}


@dataclass(frozen=True)
class Reading:
    """One way to read "the representation" of a model.

    Attributes:
        layer: As ``repalign extract --layer`` takes it.
        pool: As ``--pool`` takes it.
        tokens: As ``--tokens`` takes it, where tokens or patches are rows.
    """

    layer: str
    pool: str
    tokens: str = "all"

    def __str__(self) -> str:
        """Name the reading as tables do."""
        rows = self.pool if self.tokens == "all" else f"{self.pool} {self.tokens}"
        return f"{self.layer}, {rows}"


@dataclass(frozen=True)
class ReadingCase(Case):
    """A pair of checkpoints in one reading.

    Attributes:
        source: A shipped model, or a preset of ``repalign models``.
        target: The same.
        kind: What the models read.
        reading: Which rows are taken of both.
        paper_row: The row of the paper's table that the pair is, or stands for.
        preprocess: A model whose preparation of images both get.
        limit: The first samples alone; None for all.
    """

    source: str
    target: str
    kind: Kind
    reading: Reading
    paper_row: str
    preprocess: str | None = None
    limit: int | None = None

    def extractions(self, data: GivenData | None) -> tuple[Extraction, Extraction]:
        """Return both stores to be made."""
        first, second = (
            Extraction(
                self._store(model),
                model,
                _data_of(self.kind, data),
                self.limit,
                pool=self.reading.pool,
                preprocess=self.preprocess,
                layer=self.reading.layer,
                tokens=self.reading.tokens,
            )
            for model in (self.source, self.target)
        )
        return first, second

    def stored(self) -> StoredPair:
        """Return the pair of stores to be compared."""
        stores = self._store(self.source), self._store(self.target)
        return StoredPair(self.name, *stores, "related", self.paper_row)

    def _store(self, model: str) -> str:
        reading = str(self.reading).replace(", ", "-").replace(" ", "-").replace(":", "-")
        return f"{model}--{reading}"


def find_inputs(path: Path | None) -> GivenData:
    """Tell what the models are shown: the user's texts and images, or what comes along.

    Raises:
        InputError: The folder does not hold ``text…`` and ``images…``.
    """
    if path is None:
        return GivenData(COMES_ALONG)
    files: list[Path] = []
    for kind in _ENTRIES:
        entry = _entry(path, kind)
        inside = sorted(each for each in entry.rglob("*") if each.is_file())
        files += inside or [entry]
    return GivenData(f"texts and images of {path.resolve().name}", path, digest_of(files))


def _data_of(kind: Kind, data: GivenData | None) -> str:
    if data is None or data.path is None:
        return _BUILTIN[kind]
    return str(_entry(data.path, kind))


def _entry(path: Path, kind: Kind) -> Path:
    """Return the one file or folder of the user's data that is text, or images."""
    stem = _ENTRIES[kind]
    found = sorted(path.glob(f"{stem}*")) if path.is_dir() else []
    if len(found) != 1:
        raise InputError(
            f"{path}: got {len(found)} entries that begin with {stem!r}, expected one: a folder "
            "with text.txt (or a folder text) and a folder images"
        )
    return found[0]


TOKENS, MEAN = Reading("final", "token"), Reading("final", "mean")
BEFORE_NORM = Reading("pre-norm", "token")
PATCHES, CLASS_TOKEN = Reading("final", "patch-mean"), Reading("final", "cls")
PATCHES_BEFORE_NORM = Reading("pre-norm", "patch-mean")
SOME_PATCHES = Reading("final", "token", "sample:4")
POOLED, SOME_POSITIONS = Reading("final", "avg"), Reading("final", "token", "sample:4")

_TEXT = (TOKENS, MEAN, BEFORE_NORM)
_MASKED = (PATCHES, CLASS_TOKEN, PATCHES_BEFORE_NORM, SOME_PATCHES)
_CNN = (POOLED, SOME_POSITIONS)


def _cases(
    pairs: Sequence[tuple[str, str, str, Kind, Sequence[Reading], str, str | None]],
    limit: int | None,
) -> tuple[ReadingCase, ...]:
    return tuple(
        ReadingCase(
            f"{title}: {reading}",
            source,
            target,
            kind,
            reading,
            row,
            preprocess,
            limit if kind == "text" and reading.pool == "token" else None,
        )
        for title, source, target, kind, readings, row, preprocess in pairs
        for reading in readings
    )


def shipped_readings(text_limit: int | None) -> tuple[ReadingCase, ...]:
    """Return the shipped pairs in the readings that Table 1 in miniature does not take.

    Tokens are of so many paragraphs; means of paragraphs are of all, or they would be few rows.
    The last feature map of the shipped ResNets has one position, so that there is one reading.
    """
    mae = "mae-timm-seed1"
    return _cases(
        [
            (
                "GPT-NeoX", "gpt-neox-seed0", "gpt-neox-seed1", "text", _TEXT[1:],
                "Pythia-160M 0/1", None,
            ),
            (
                "ViT-MAE", "mae-transformers-seed0", mae, "images", _MASKED[1:],
                "MAE timm/original", mae,
            ),
            (
                "ViT-MAE, two widths", "mae-transformers-seed0", "mae-wide-seed1", "images",
                _MASKED[1:], "CheXpert small/base", mae,
            ),
        ],
        text_limit,
    )  # fmt: skip


def published_checkpoints() -> tuple[ReadingCase, ...]:
    """Return the paper's pairs, as far as it names them, in every reading."""
    return _cases(
        [
            (
                "Pythia-160M", "pythia-160m-seed0", "pythia-160m-seed1", "text", _TEXT,
                "Pythia-160M 0/1", None,
            ),
            (
                "MAE", "mae-timm", "mae-original", "images", _MASKED, "MAE timm/original",
                "canonical224",
            ),
            (
                "CheXpert MAE", "chexpert-small", "chexpert-base", "images", _MASKED,
                "CheXpert small/base", None,
            ),
            (
                "ResNet-18", "resnet18-a1", "resnet18-a2", "images", _CNN, "ResNet-18 fc 1/2",
                "canonical224",
            ),
        ],
        None,
    )  # fmt: skip
