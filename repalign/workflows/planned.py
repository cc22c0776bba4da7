"""Which pairs a comparison will have, by name, before anything of them is computed."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from repalign.store.sources.in_memory import as_source
from repalign.store.sources.source import EmbeddingSource


def planned_pairs(
    stores: Sequence[str],
    *,
    against: str | None = None,
    ids: Sequence[str] | None = None,
    both_directions: bool = False,
) -> list[tuple[str, str]]:
    """Return the names of source and target of every pair, as records have them.

    Raises:
        InputError: An input cannot be opened.
    """
    sources = [as_source(store, ids=ids) for store in stores]
    labels = [(source.name, source.view) for source in sources]
    named = [
        replace(source, name=f"{source.name} ({number})") if labels.count(label) > 1 else source
        for number, (source, label) in enumerate(zip(sources, labels, strict=True), start=1)
    ]
    pairs = list(combinations(map(_name, named), 2))
    if against is not None:
        pairs = [(_name(as_source(against, ids=ids)), _name(source)) for source in named]
    return pairs + [(target, source) for source, target in pairs if both_directions]


def _name(source: EmbeddingSource) -> str:
    return f"{source.name}::{source.view}"
