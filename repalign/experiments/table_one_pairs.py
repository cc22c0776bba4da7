"""The pairs of Table 1 in miniature: which shipped models stand for which pair of the paper."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Role = Literal["related", "same input", "unrelated"]

EXPECTED = Path(__file__).with_name("expected") / "table_one.json"
TEXT, IMAGES = "builtin:shakespeare", "builtin:digits"
PARAGRAPHS = 891


@dataclass(frozen=True)
class Extraction:
    """One store to be made of a model's layer, from all of the data or the first samples.

    ``model`` is a shipped model, or a preset of ``repalign models``; ``preprocess`` a model whose
    preprocessing is used, so that both of a pair see the very same pixels; None leaves the model
    its own.
    """

    store: str
    model: str
    data: str
    limit: int | None = None
    pool: str | None = None
    preprocess: str | None = None
    with_ids: bool = True
    layer: str = "final"
    tokens: str = "all"


@dataclass(frozen=True)
class StoredPair:
    """Two stores to compare, and the row of the paper's table that they stand for, if any.

    Rows of an unrelated pair have nothing in common but their place.
    """

    title: str
    source: str
    target: str
    role: Role
    paper_row: str | None = None


PAIRS = (
    StoredPair(
        "GPT-NeoX, seeds 0 and 1",
        "gpt-neox-seed0",
        "gpt-neox-seed1",
        "related",
        "Pythia-160M 0/1",
    ),
    StoredPair(
        "ViT-MAE, transformers and timm",
        "mae-transformers-seed0",
        "mae-timm-seed1",
        "related",
        "MAE timm/original",
    ),
    StoredPair(
        "ViT-MAE, 48 and 72 columns",
        "mae-transformers-seed0",
        "mae-wide-seed1",
        "related",
        "CheXpert small/base",
    ),
    StoredPair(
        "ResNet-18, seeds 0 and 1", "resnet-seed0", "resnet-seed1", "related", "ResNet-18 fc 1/2"
    ),
    StoredPair(
        "control: ViT-MAE, trained and untrained, same digits",
        "mae-transformers-seed0",
        "mae-untrained-seed1",
        "same input",
    ),
    StoredPair(
        "control: digits and paragraphs, paired by position",
        "resnet-some-digits",
        "gpt-neox-paragraphs",
        "unrelated",
    ),
)


def extractions(text_limit: int | None) -> tuple[Extraction, ...]:
    """Return the stores that the pairs need; ``text_limit`` paragraphs give rows for tokens."""
    digits = ("resnet-seed0", "resnet-seed1")
    masked = (
        "mae-transformers-seed0",
        "mae-timm-seed1",
        "mae-wide-seed1",
        "mae-untrained-seed1",
    )
    return (
        Extraction("gpt-neox-seed0", "gpt-neox-seed0", TEXT, text_limit),
        Extraction("gpt-neox-seed1", "gpt-neox-seed1", TEXT, text_limit),
        *(Extraction(name, name, IMAGES) for name in digits),
        *(Extraction(name, name, IMAGES, preprocess="mae-timm-seed1") for name in masked),
        Extraction("resnet-some-digits", "resnet-seed0", IMAGES, PARAGRAPHS, with_ids=False),
        Extraction("gpt-neox-paragraphs", "gpt-neox-seed0", TEXT, pool="mean", with_ids=False),
    )


def paper_rows() -> Mapping[str, Mapping[str, float]]:
    """Return the paper's errors and efficiencies by row of its Table 1; they are in-sample."""
    rows: dict[str, dict[str, float]] = json.loads(EXPECTED.read_text(encoding="utf-8"))["rows"]
    return rows
