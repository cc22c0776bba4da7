"""The conditions: the one list that settings, help, tables and docs follow."""

from dataclasses import dataclass

from repalign.exceptions import InputError


@dataclass(frozen=True)
class ConditionKind:
    """One form in which a representation is judged.

    Attributes:
        name: What settings and records call it.
        title: Heading of its column.
        definition: What is judged, for people.
        is_random: Another seed gives another transform.
        is_for_batches: Part of the deconfounding table.
    """

    name: str
    title: str
    definition: str
    is_random: bool = False
    is_for_batches: bool = True


CONDITIONS = (
    ConditionKind("raw", "raw", "the rows as they are"),
    ConditionKind(
        "pca",
        "pca",
        "centred and whitened on all directions of the numerical rank",
    ),
    ConditionKind(
        "pca+ica",
        "pca+ica",
        "whitened, then rotated to independent components",
        is_random=True,
    ),
    ConditionKind(
        "pca+rotation",
        "pca+random rotation",
        "whitened, then rotated at random: the control of `pca+ica`",
        is_random=True,
    ),
    ConditionKind(
        "ica",
        "ica (no whitening)",
        "centred, divided by one number for all columns, then rotated (scikit-learn's FastICA "
        "without whitening: the paper's setting for autoencoders with twice as many latents as "
        "factors)",
        is_random=True,
        is_for_batches=False,
    ),
)

CONDITION_NAMES = tuple(kind.name for kind in CONDITIONS)
BATCH_CONDITIONS = tuple(kind.name for kind in CONDITIONS if kind.is_for_batches)


def condition_kind(name: str) -> ConditionKind:
    """Return the condition of this name.

    Raises InputError when there is none.
    """
    for kind in CONDITIONS:
        if kind.name == name:
            return kind
    raise InputError(f"no condition is called {name}; expected {', '.join(CONDITION_NAMES)}")
