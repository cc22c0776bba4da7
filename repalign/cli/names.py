"""``--name A=store.h5``: what the stores on a line are called."""

from collections.abc import Sequence

import typer


def names_of(given: Sequence[str], stores: Sequence[str]) -> list[str | None]:
    """Return the name of every store on the line, None for those that keep their own.

    A name belongs to every place of its store: to each ``store::view`` as well, all of them views
    of one model.

    Raises:
        BadParameter: A name that is not NAME=STORE, or of a store that is not on the line.
    """
    names: dict[str, str] = {}
    for text in given:
        name, mark, store = text.partition("=")
        if not mark or not name or not store:
            raise typer.BadParameter(f"--name: got {text!r}, expected NAME=STORE")
        if not any(_is_of(store, each) for each in stores):
            raise typer.BadParameter(
                f"--name {name}: no store {store!r} is on the line, which has {', '.join(stores)}"
            )
        if store in names or name in names.values():
            raise typer.BadParameter(f"--name: {name!r} or {store!r} is named twice")
        names[store] = name
    return [
        next((name for store, name in names.items() if _is_of(store, each)), None)
        for each in stores
    ]


def _is_of(store: str, each: str) -> bool:
    return each == store or each.startswith(f"{store}::")
