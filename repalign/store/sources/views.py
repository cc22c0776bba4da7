"""The views of a file in the order of the layers, and those that a pattern takes."""

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from repalign.exceptions import InputError, SeveralViewsError
from repalign.store.reading.store import open_store
from repalign.store.sources.native import is_store, native_sources
from repalign.store.sources.opening import check_exists, open_embeddings
from repalign.store.sources.source import EmbeddingSource, Locator, parse_locator

ALL = "all"
WILD = set("*?[")
# Where a layer stands whose name carries no number: before the numbered ones, or behind them.
FIRST = ("embeddings", "embedding", "embed", "input", "stem")
LAST = ("pre-norm", "final", "output", "logits")


def layer_order(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of views as the layers follow each other.

    Numbers count as numbers (``block-2`` before ``block-10``); the embeddings come first, what
    stands behind the last block comes last.
    """
    return tuple(sorted(names, key=_place))


def _place(name: str) -> tuple[int, tuple[tuple[int, int, str], ...], str]:
    stem = re.split(r"[.:/]", name)[0].lower()
    rank = len(FIRST)
    if stem in FIRST:
        rank = FIRST.index(stem)
    elif stem in LAST:
        rank = len(FIRST) + 1 + LAST.index(stem)
    parts = re.split(r"(\d+)", name)
    return rank, tuple((1, int(p), "") if p.isdecimal() else (0, 0, p) for p in parts), name


def list_views(path: str | Path) -> tuple[str, ...]:
    """Return the names of the views of a file, in the order of the layers.

    Raises:
        InputError: there is no such file, or none that can be read.
    """
    path = Path(path)
    check_exists(path)
    if is_store(path):
        with open_store(path) as store:
            return layer_order(list(store.views))
    try:
        return (open_embeddings(path).view,)
    except SeveralViewsError as several:
        return layer_order(several.views)


def open_views(locator: str | Path, layers: Sequence[str] = ()) -> list[EmbeddingSource]:
    """Open the views that a locator means, each with its place among those of the file.

    ``file::view`` is that view, ``file::block-*`` all that match; a file alone is its only view,
    or with ``layers`` those that match any of them (``all`` matches all).

    Raises:
        InputError: there is no such file, or a pattern takes none of its views.
        SeveralViewsError: there are several views, and nothing says which are meant.
    """
    located = parse_locator(locator)
    if located.view is None and not layers:
        return [open_embeddings(located.path)]
    views = list_views(located.path)
    if located.view is None:
        selected = _select(located.path, views, layers)
    elif located.view in views or not WILD & set(located.view):
        return [_open_view(located, views)]
    else:
        selected = _select(located.path, views, [located.view])
    if len(selected) > 1 and is_store(located.path):
        return [_with_layer(source, views) for source in native_sources(located.path, selected)]
    return [_open_view(Locator(located.path, view), views) for view in selected]


def _select(path: Path, views: Sequence[str], patterns: Sequence[str]) -> list[str]:
    if list(views) == [path.stem] and not is_store(path):
        return list(views)  # the format knows no views, so that no pattern can choose
    for pattern in patterns:
        if not any(_matches(view, pattern) for view in views):
            raise InputError(f"{path}: no view matches {pattern!r}; it has {', '.join(views)}")
    return [view for view in views if any(_matches(view, pattern) for pattern in patterns)]


def _matches(view: str, pattern: str) -> bool:
    return pattern == ALL or view == pattern or fnmatchcase(view, pattern)


def _open_view(located: Locator, views: Sequence[str]) -> EmbeddingSource:
    # a file of one matrix takes no view, one of several needs it
    alone = len(views) == 1 and located.view == views[0]
    return _with_layer(open_embeddings(located.path, view=None if alone else located.view), views)


def _with_layer(source: EmbeddingSource, views: Sequence[str]) -> EmbeddingSource:
    return replace(source, layer=views.index(source.view) if source.view in views else None)
