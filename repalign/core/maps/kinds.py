"""The kinds of maps, one list: names, headings and what each needs; how to fit them is beside.

Settings, help, tables, documents and tests follow from this list. It is light, so that the
command line can read it. ``repalign.core.maps.fitting`` holds a fitter for every kind, and
refuses to be imported where one is missing.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class MapKind:
    """One kind of map from a source to a target representation.

    Attributes:
        name: As it is asked for and recorded.
        heading: Of its column in tables; the arrow says which way is better.
        means: In one line, what the map may do.
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
    is_supervised: bool = False
    is_paired: bool = True
    needs_ica: bool = False
    needs_equal_widths: bool = False
    in_components: bool = False
    in_paper: bool = False


MAP_KINDS = (
    MapKind("mean", "Mean ↓", "predict the mean of the target", is_paired=False),
    MapKind("identity", "Identity ↓", "leave rows as they are, moved", needs_equal_widths=True),
    MapKind("permutation", "Permutation ↓", "match columns one to one, with signs", in_paper=True),
    MapKind("permutation+scale", "Perm.+scale ↓", "the same, times one number"),
    MapKind("rigid-noscale", "No scale ↓", "rotate or reflect", is_supervised=True),
    MapKind("rigid", "Rigid ↓", "the same, times one number", is_supervised=True, in_paper=True),
    MapKind("linear", "Linear ↓", "any linear map", is_supervised=True, in_paper=True),
    MapKind("ica", "ICA ↓", "match independent components", needs_ica=True, in_paper=True),
    MapKind("ica+scale", "ICA+scale ↓", "the same, times one number", needs_ica=True),
    MapKind(
        "ica-components",
        "ICA comp. ↓",
        "the same, judged between components of unit variance",
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
