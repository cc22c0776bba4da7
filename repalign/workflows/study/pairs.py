"""Which views are compared with which: across models, within them, or all against one."""

from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement, product

from repalign.core.maps.kinds import KIND_OF
from repalign.exceptions import InputError
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.study.inputs import Model

SourcePair = tuple[EmbeddingSource, EmbeddingSource]
# What a pair of 5,000 × 256 takes on one core: its maps, and its nulls and intervals. ICA, which is
# made once a view, is not counted.
PAIR_SECONDS = 0.1
TRUST_SECONDS = 2.3


def choose_pairs(models: Sequence[Model], *, within: bool) -> list[SourcePair]:
    """Return all pairs of views of different models, model by model.

    ``within`` adds the pairs of views of one model; of a single model there are no others.

    Raises:
        InputError: There is nothing to pair.
    """
    within = within or len(models) == 1
    found = list(_pairs(models, within=within))
    if not found:
        n_views = sum(len(model.views) for model in models)
        raise InputError(
            f"compare: got {n_views} set of embeddings, expected at least two; of one store of "
            "several views take them with --layers all"
        )
    return found


def _pairs(models: Sequence[Model], *, within: bool) -> Iterator[SourcePair]:
    for first, second in combinations_with_replacement(models, 2):
        if first is not second:
            yield from product(first.views, second.views)
        elif within:
            yield from combinations(first.views, 2)


def pairs_against(fixed: Sequence[EmbeddingSource], models: Sequence[Model]) -> list[SourcePair]:
    """Return the pairs of every fixed view with every view of every model."""
    return [(one, view) for model in models for one in fixed for view in model.views]


def check_count(pairs: Sequence[SourcePair], settings: CompareSettings) -> None:
    """Refuse more pairs than were meant, with what they would cost.

    Raises:
        InputError: There are more.
    """
    if len(pairs) <= settings.max_pairs:
        return
    models = {source.name for pair in pairs for source in pair}
    views = {(source.name, source.view) for pair in pairs for source in pair}
    has_trust = settings.n_null != 0 or settings.n_refits != 0
    more = ""
    if any(KIND_OF[name].needs_ica for name in settings.maps):
        more = f" beside {len(views)} ICAs"
    if has_trust:
        more += ", nearly all of it for nulls and intervals (--null 0 --refits 0)"
    raise InputError(
        f"compare: {len(views)} views of {len(models)} models are {len(pairs):,} pairs, "
        f"{_hours(pairs, has_trust=has_trust)} of one core{more}; take fewer "
        "layers (--layers), compare with one (--against), or allow them with "
        f"--max-pairs {len(pairs)}"
    )


def _hours(pairs: Sequence[SourcePair], *, has_trust: bool) -> str:
    """Say about how long the pairs take, by the multiplications of a pass over their rows."""
    unit = 5000 * 256 * 256
    each = PAIR_SECONDS + TRUST_SECONDS * has_trust
    seconds = sum(
        each * max(first.n_rows * first.dim * second.dim / unit, 0.1) for first, second in pairs
    )
    if seconds < 90:
        return "about a minute"
    if seconds < 5400:
        return f"about {round(seconds / 60)} minutes"
    return f"about {round(seconds / 3600)} hours"
