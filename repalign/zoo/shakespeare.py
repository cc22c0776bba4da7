"""The text of the language models: what they learn from, and what they are judged on."""

import gzip
from pathlib import Path

_REST = Path(__file__).with_name("shakespeare_rest.txt.gz")
_EXCERPT = Path(__file__).parents[1] / "data" / "shakespeare.txt"


def training_text() -> str:
    """Return about one megabyte of Shakespeare, all that follows the built-in excerpt."""
    return gzip.decompress(_REST.read_bytes()).decode("utf-8")


def held_out_text() -> str:
    """Return the built-in excerpt (``builtin:shakespeare``), which no model is trained on."""
    return _EXCERPT.read_text(encoding="utf-8")
