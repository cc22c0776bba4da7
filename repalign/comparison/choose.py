"""Which pairs of views are compared: from what a user asked for to open, named, ordered sources."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path
from string import digits

from repalign.arguments import listed
from repalign.comparison.settings import CompareSettings
from repalign.exceptions import InputError, SeveralViewsError
from repalign.store.open import Embeddings, as_source, open_views
from repalign.store.source import EmbeddingSource, with_ids

# Names of the inputs in their order; None leaves one the name it has.
Names = Sequence[str | None]


SourcePair = tuple[EmbeddingSource, EmbeddingSource]


def chosen_pairs(
    embeddings: Sequence[Embeddings],
    settings: CompareSettings,
    *,
    against: "Embeddings | None" = None,
    names: Names | None = None,
    ids: Sequence[str] | None = None,
) -> list[SourcePair]:
    """Open the inputs and return the pairs that are compared, in their order.

    Args:
        embeddings: Paths, patterns of views, or anything in memory.
        settings: Which views and pairs of them.
        against: One to compare all of them with; None for all pairs.
        names: A name for each of the embeddings, and for ``against`` behind them where it is
            given; None for their own.
        ids: One id a row, for inputs that carry none.

    Raises:
        InputError: An input cannot be used, there is nothing to pair, or too much.
    """
    layers = settings.layers
    if against is None:
        models = open_models(embeddings, layers, ids=ids, names=names)
        pairs = choose_pairs(models, within=settings.within)
    else:
        n_inputs = len(embeddings) + 1
        names = checked_names([None] * n_inputs if names is None else names, n_inputs)
        models = open_models(embeddings, layers, ids=ids, names=names[:-1])
        fixed = open_input(against, layers, ids=ids, name=names[-1], place="against")
        pairs = pairs_against(fixed, models)
        if not pairs:
            raise InputError("compare: got nothing to compare with that, expected one or more")
    check_count(pairs, settings)
    return pairs


def names_of_pairs(pairs: Sequence[SourcePair], settings: CompareSettings) -> list[tuple[str, str]]:
    """Return the names of source and target of every pair, as records have them."""
    names = [(_side_name(source), _side_name(target)) for source, target in pairs]
    return names + [(target, source) for source, target in names if settings.both_directions]


# By the name of a model its views, in the order of its layers where a pattern took them.
Models = Mapping[str, Sequence[EmbeddingSource]]


def open_models(
    embeddings: Sequence[Embeddings],
    layers: Sequence[str],
    *,
    ids: Sequence[str] | None = None,
    names: Names | None = None,
) -> Models:
    """Open everything; views of one name are one model, wherever they stand.

    Arrays are named by their place. What was given twice gets its number, as if it were another
    model.

    Raises:
        InputError: As ``open_input``, or names that do not fit the inputs.
    """
    if names is None:
        names = [None] * len(embeddings)
    names = checked_names(names, len(embeddings))
    groups = [
        open_input(item, layers, ids=ids, name=name, place=f"array {number}")
        for number, (item, name) in enumerate(zip(embeddings, names, strict=True), start=1)
    ]
    names_of_views = [(source.name, source.shown_view) for group in groups for source in group]
    models: dict[str, list[EmbeddingSource]] = {}
    for number, (group, name) in enumerate(zip(groups, names, strict=True), start=1):
        for source in group:
            is_twice = names_of_views.count((source.name, source.shown_view)) > 1
            if is_twice and name is not None:
                raise InputError(
                    f"names: {name!r} stands for two inputs of the same view "
                    f"{source.shown_view!r}; expected different names"
                )
            distinct = f"{source.name} ({number})" if is_twice else source.name
            models.setdefault(distinct, []).append(replace(source, name=distinct))
    return models


def open_input(
    item: Embeddings,
    layers: Sequence[str],
    *,
    ids: Sequence[str] | None = None,
    name: str | None = None,
    place: str,
) -> list[EmbeddingSource]:
    """Open the views that one input stands for.

    Args:
        item: A path (``file``, ``file::view``, ``file::block-*``) or anything in memory.
        layers: Patterns of the views to take of a path that names none.
        ids: One id a row, for inputs that carry none.
        name: What to call it; None for its own name.
        place: What to call an array.

    Raises:
        InputError: It cannot be used, or holds several views and nothing says which are meant.
    """
    if isinstance(item, str | Path):
        try:
            sources = open_views(item, layers)
        except SeveralViewsError as several:
            # numbered ones have the rest of their name in common
            numbered = [view.rstrip(digits) for view in several.views if view[-1:] in digits]
            pattern = next(filter(None, numbered), several.views[0][:1]) + "*"
            raise InputError(
                f"{several}, or take several: --layers all, --layers '{pattern}'"
            ) from several
    else:
        sources = [as_source(item, name=place)]
    if ids is not None:
        sources = [with_ids(source, ids) for source in sources]
    return sources if name is None else [replace(source, name=name) for source in sources]


def checked_names(names: Names, n_inputs: int) -> list[str | None]:
    """Return the names, of which there is one for each input.

    Raises:
        InputError: There is not.
    """
    names = listed("names", names, "texts, one for each input", str | None)
    if len(names) != n_inputs:
        raise InputError(f"names: got {len(names)} for {n_inputs} inputs; expected one each")
    if "" in names:
        raise InputError("names: got an empty one; expected a text, or None for the input's own")
    return names


def choose_pairs(models: Models, *, within: bool) -> list[SourcePair]:
    """Return all pairs of views of different models, model by model.

    ``within`` adds the pairs of views of one model; of a single model there are no others.

    Raises:
        InputError: There is nothing to pair.
    """
    within = within or len(models) == 1
    pairs: list[SourcePair] = []
    for first, second in combinations_with_replacement(models, 2):
        if first != second:
            pairs += product(models[first], models[second])
        elif within:
            pairs += combinations(models[first], 2)
    if not pairs:
        n_views = sum(map(len, models.values()))
        raise InputError(
            f"compare: got {n_views} set of embeddings, expected at least two; of one store of "
            "several views take them with --layers all"
        )
    return pairs


def pairs_against(fixed: Sequence[EmbeddingSource], models: Models) -> list[SourcePair]:
    """Return the pairs of every fixed view with every view of every model."""
    return [(source, view) for views in models.values() for source in fixed for view in views]


def check_count(pairs: Sequence[SourcePair], settings: CompareSettings) -> None:
    """Refuse more pairs than were meant.

    Raises:
        InputError: There are more.
    """
    if len(pairs) <= settings.max_pairs:
        return
    models = {source.name for pair in pairs for source in pair}
    views = {(source.name, source.view) for pair in pairs for source in pair}
    raise InputError(
        f"compare: {len(views)} views of {len(models)} models are {len(pairs):,} pairs; take fewer "
        "layers (--layers), compare with one (--against), or allow them with "
        f"--max-pairs {len(pairs)}"
    )


def _side_name(source: EmbeddingSource) -> str:
    return f"{source.name}::{source.shown_view}" if source.shown_view else source.name
