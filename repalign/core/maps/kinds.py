"""The kinds of maps: the one list that settings, help, tables, documents and tests follow.

It is light, so that the command line can read it: an entry fits its map by what
``repalign.core.maps.fitting`` offers, which is imported when there is something to fit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repalign.core.maps.fitting import FittedMap, MapInputs


@dataclass(frozen=True)
class MapKind:
    """One kind of map from a source to a target representation.

    Attributes:
        name: As it is asked for and recorded.
        heading: Of its column in tables; the arrow says which way is better.
        means: In one line, what the map may do.
        fit: Makes the map from moments and ICA.
        is_supervised: It is fitted to the pairing of rows (the paper's word for such maps).
        is_paired: Its error depends on which rows are paired, so that shuffling can test it.
        needs_ica: It is made from the ICA of both sides.
        needs_equal_widths: It is not defined between spaces of different widths.
        in_components: Its error lives in the space of the target's components.
        in_paper: The paper's Table 1 shows it.
    """

    name: str
    heading: str
    means: str
    fit: "Callable[[MapInputs], FittedMap]"
    is_supervised: bool = False
    is_paired: bool = True
    needs_ica: bool = False
    needs_equal_widths: bool = False
    in_components: bool = False
    in_paper: bool = False


MAP_KINDS = (
    MapKind(
        "mean",
        "Mean ↓",
        "predict the mean of the target",
        lambda inputs: inputs.mean(),
        is_paired=False,
    ),
    MapKind(
        "identity",
        "Identity ↓",
        "leave rows as they are, moved",
        lambda inputs: inputs.identity(),
        needs_equal_widths=True,
    ),
    MapKind(
        "permutation",
        "Permutation ↓",
        "match columns one to one, with signs",
        lambda inputs: inputs.permutation(scale=False),
        in_paper=True,
    ),
    MapKind(
        "permutation+scale",
        "Perm.+scale ↓",
        "the same, times one number",
        lambda inputs: inputs.permutation(scale=True),
    ),
    MapKind(
        "rigid-noscale",
        "No scale ↓",
        "rotate or reflect",
        lambda inputs: inputs.rigid(scale=False),
        is_supervised=True,
    ),
    MapKind(
        "rigid",
        "Rigid ↓",
        "the same, times one number",
        lambda inputs: inputs.rigid(scale=True),
        is_supervised=True,
        in_paper=True,
    ),
    MapKind(
        "linear",
        "Linear ↓",
        "any linear map",
        lambda inputs: inputs.linear(),
        is_supervised=True,
        in_paper=True,
    ),
    MapKind(
        "ica",
        "ICA ↓",
        "match independent components",
        lambda inputs: inputs.ica_map(scale=False),
        needs_ica=True,
        in_paper=True,
    ),
    MapKind(
        "ica+scale",
        "ICA+scale ↓",
        "the same, times one number",
        lambda inputs: inputs.ica_map(scale=True),
        needs_ica=True,
    ),
    MapKind(
        "ica-components",
        "ICA comp. ↓",
        "the same, judged between components of unit variance",
        lambda inputs: inputs.ica_components(),
        needs_ica=True,
        in_components=True,
    ),
)
"""Every kind of map, in the order of the columns of a table."""

KIND_OF = {kind.name: kind for kind in MAP_KINDS}
ALL_MAPS = tuple(KIND_OF)
ICA_MAPS = tuple(kind.name for kind in MAP_KINDS if kind.needs_ica)
PAPER_MAPS = tuple(kind.name for kind in MAP_KINDS if kind.in_paper)
DEFAULT_MAPS = ("mean", "permutation", "permutation+scale", "rigid", "linear", "ica")
"""Those of the paper, its permutation also with the scale that rigid and ICA maps have."""
