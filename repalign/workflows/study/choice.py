"""From what a user asked for to the pairs of open sources that are compared."""

from collections.abc import Sequence
from dataclasses import dataclass

from repalign.exceptions import InputError
from repalign.store.sources.in_memory import Embeddings
from repalign.store.sources.source import EmbeddingSource
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.study.inputs import Names, check_names, open_input, open_models, view_name
from repalign.workflows.study.pairs import SourcePair, check_count, choose_pairs, pairs_against


@dataclass(frozen=True, eq=False)
class Asked:
    """What is to be compared, as it was asked for.

    Attributes:
        embeddings: Paths, patterns of views, or anything in memory.
        against: One to compare all of them with; None for all pairs.
        names: A name for each of the embeddings, and for ``against`` behind them where it is
            given; None for their own.
        ids: One id a row, for inputs that carry none.
    """

    embeddings: Sequence[Embeddings]
    against: "Embeddings | None" = None
    names: Names | None = None
    ids: Sequence[str] | None = None


def chosen_pairs(asked: Asked, settings: CompareSettings) -> list[SourcePair]:
    """Open the inputs and return the pairs that are compared, in their order.

    Raises:
        InputError: An input cannot be used, there is nothing to pair, or too much.
    """
    ids, layers = asked.ids, settings.layers
    if asked.against is None:
        models = open_models(asked.embeddings, layers, ids=ids, names=asked.names)
        pairs = choose_pairs(models, within=settings.within)
    else:
        n_inputs = len(asked.embeddings) + 1
        names = [None] * n_inputs if asked.names is None else asked.names
        check_names(names, n_inputs)
        models = open_models(asked.embeddings, layers, ids=ids, names=names[:-1])
        fixed = open_input(asked.against, layers, ids=ids, name=names[-1], place="against")
        pairs = pairs_against(fixed, models)
        if not pairs:
            raise InputError("compare: got nothing to compare with that, expected one or more")
    check_count(pairs, settings)
    return pairs


def planned_pairs(asked: Asked, settings: CompareSettings) -> list[tuple[str, str]]:
    """Return the names of source and target of every pair, as records have them.

    Raises:
        InputError: As ``chosen_pairs``.
    """
    pairs = [
        (_side_name(source), _side_name(target)) for source, target in chosen_pairs(asked, settings)
    ]
    return pairs + [(target, source) for source, target in pairs if settings.both_directions]


def _side_name(source: EmbeddingSource) -> str:
    view = view_name(source)
    return f"{source.name}::{view}" if view else source.name
