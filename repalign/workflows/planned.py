"""Which inputs and pairs a comparison will have, before anything of them is computed."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from repalign.store.sources.in_memory import as_source
from repalign.store.sources.source import EmbeddingSource


def planned_sources(
    stores: Sequence[str], *, against: str | None = None, ids: Sequence[str] | None = None
) -> list[EmbeddingSource]:
    """Return every input under the name that records have; the fixed one, if any, comes first.

    Raises:
        InputError: An input cannot be opened.
    """
    sources = [as_source(store, ids=ids) for store in stores]
    labels = [(source.name, source.view) for source in sources]
    named = [
        replace(source, name=f"{source.name} ({number})") if labels.count(label) > 1 else source
        for number, (source, label) in enumerate(zip(sources, labels, strict=True), start=1)
    ]
    return named if against is None else [as_source(against, ids=ids), *named]


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
    names = [
        f"{source.name}::{source.view}"
        for source in planned_sources(stores, against=against, ids=ids)
    ]
    pairs = list(combinations(names, 2))
    if against is not None:
        pairs = [(names[0], name) for name in names[1:]]
    return pairs + [(target, source) for source, target in pairs if both_directions]
