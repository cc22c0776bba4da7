"""Who takes part: every input of a comparison opened, named and ordered by model and layer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repalign.exceptions import InputError, SeveralViewsError
from repalign.store.sources.in_memory import Embeddings, as_source
from repalign.store.sources.source import EmbeddingSource, with_ids
from repalign.store.sources.views import open_views

# Names of the inputs in their order; None leaves one the name it has.
Names = Sequence[str | None]


@dataclass(frozen=True, eq=False)
class Model:
    """Views of one model, in the order of its layers where a pattern took them."""

    name: str
    views: tuple[EmbeddingSource, ...]


def open_models(
    embeddings: Sequence[Embeddings],
    layers: Sequence[str],
    *,
    ids: Sequence[str] | None = None,
    names: Names | None = None,
) -> list[Model]:
    """Open everything; views of one name are one model, wherever they stand.

    Arrays are named by their place. What was given twice gets its number, as if it were another
    model.

    Raises:
        InputError: As ``open_input``, or names that do not fit the inputs.
    """
    if names is None:
        names = [None] * len(embeddings)
    check_names(names, len(embeddings))
    groups = [
        open_input(item, layers, ids=ids, name=name, place=f"array {number}")
        for number, (item, name) in enumerate(zip(embeddings, names, strict=True), start=1)
    ]
    told = [(source.name, view_name(source)) for group in groups for source in group]
    models: dict[str, list[EmbeddingSource]] = {}
    for number, (group, name) in enumerate(zip(groups, names, strict=True), start=1):
        for source in group:
            is_twice = told.count((source.name, view_name(source))) > 1
            if is_twice and name is not None:
                raise InputError(
                    f"names: {name!r} stands for two inputs of the same view "
                    f"{view_name(source)!r}; expected different names"
                )
            own = f"{source.name} ({number})" if is_twice else source.name
            models.setdefault(own, []).append(replace(source, name=own))
    return [Model(name, tuple(views)) for name, views in models.items()]


def view_name(source: EmbeddingSource) -> str:
    """Return the view; an array in memory has none."""
    return "" if source.path is None else source.view


def check_names(names: Names, n_inputs: int) -> None:
    """Check that there is a name for each input.

    Raises:
        InputError: There is not.
    """
    if len(names) != n_inputs:
        raise InputError(f"names: got {len(names)} for {n_inputs} inputs; expected one each")
    if "" in names:
        raise InputError("names: got an empty one; expected a text, or None for the input's own")


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
            found = open_views(item, layers)
        except SeveralViewsError as several:
            raise InputError(
                f"{several}, or take several: --layers all, --layers '{several.views[0][:1]}*'"
            ) from several
    else:
        found = [as_source(item, name=place)]
    if ids is not None:
        found = [with_ids(source, ids) for source in found]
    return found if name is None else [replace(source, name=name) for source in found]
