"""Every convention of ``compare`` that changes a number, with the paper's choice as default.

Options are declared once; they are keywords in Python under the names of the command line.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict

from repalign.core.ica.settings import PANEL as CONVENTIONS
from repalign.core.ica.settings import IcaSettings
from repalign.core.maps import ALL_MAPS, DEFAULT_MAPS, KIND_OF, PAPER_MAPS
from repalign.core.measures import EVERY, measure_names, measures_called
from repalign.core.resampling.kinds import null_option
from repalign.exceptions import InputError
from repalign.options import Settings, option, with_values
from repalign.spoken import Names, Spoken

WidthPolicy = Literal["zero-pad", "pca", "refuse"]
PermutationCost = Literal["inner-product", "correlation"]
MapRows = Literal["all", "training"]
Denominator = Literal["diameter", "rms"]

TRUST = "How far to trust it"
CHOICE = "What is compared with what"
NO_MAPS = ("none",)


@dataclass(frozen=True)
class CompareSettings(Settings):
    """What to fit, how to judge it, and how much to spend on trusting it.

    Attributes:
        maps: Names of the maps, of ``MAP_KINDS``; empty, or ``("none",)``, for measures alone.
        measures: Names of measures of similarity, of ``MEASURES``, such as ``svcca-16``.
        measure_rows: Rows on which measures that read rows are computed; None for all.
        both_directions: Also map the target back to the source.
        held_out: Share of the groups of rows held out to judge maps fitted on the rest; 0 for
            in-sample errors only.
        n_folds: Instead of one held-out share, k folds that are all judged once; 0 for none.
        n_null: Shuffles of the pairing for the null; None takes 99,
            fewer for wide spaces.
        beyond_groups: Also test whether the pairing matters beyond the groups, by shuffles of the
            rows inside them.
        n_rotations: Random rotations for the null of the held-out ICA efficiency; None takes 99,
            fewer for wide spaces.
        n_halves: Half-samples of the groups for the intervals of in-sample errors and of all that
            needs ICA; 0 leaves all intervals out; None takes twenty, without ICA where it is
            expensive.
        starts: Independent starts of ICA a side, of which the better half by contrast is kept;
            None makes two, and six where these do not agree.
        ica: How ICA is fitted; its start and seed follow from ``seed`` and the content.
        denominator: What errors are divided by in tables.
        permutation_cost: What the assignment of columns maximises.
        width_policy: What to do with spaces of different widths.
        map_rows: Rows that fit the maps which are returned and saved: all, or those of the split
            that are not held out.
        on_mismatch: Refuse stores whose rows differ, or go on with the common rows.
        layers: Patterns of the views to take of stores given bare; none takes their only one.
        within: Also compare the views of one model with each other.
        max_pairs: More pairs than this are refused.
        seed: Seed of splits, nulls, draws and ICA.

    Example:
        >>> settings = CompareSettings(maps=("rigid", "linear"), n_null=199, seed=1)
        >>> settings.has_ica
        False
        >>> CompareSettings(maps=("rigit",))
        Traceback (most recent call last):
        repalign.exceptions.InputError: maps: got rigit, expected some of: mean, identity, ...
    """

    maps: tuple[str, ...] = option(
        DEFAULT_MAPS,
        "Maps, separated by commas; none for measures alone.",
        choices=ALL_MAPS,
        metavar="NAMES",
        absent="none",
    )
    measures: tuple[str, ...] = option(
        (),
        "Measures of similarity next to the maps, separated by commas: "
        f"{measure_names()}; or {EVERY}.",
        metavar="NAMES",
        absent="none",
    )
    both_directions: bool = option(False, "Map in both directions.", flag="both")
    held_out: float = option(
        0.2,
        "Share of the groups held out to judge the maps; 0 for in-sample only.",
        flag="split",
        panel=TRUST,
        least=0,
        below=1,
        recorded=True,
        column="held_out",
    )
    n_folds: int = option(
        0, "Cross-validate in this many folds.", flag="folds", panel=TRUST, least=0
    )
    n_null: int | None = null_option("shuffled pairing", TRUST)
    beyond_groups: bool = null_option("beyond groups", TRUST)
    n_rotations: int | None = null_option("random rotations", TRUST)
    n_halves: int | None = option(
        None,
        "Half-samples for the intervals of in-sample errors and of ICA; 0 for no intervals.",
        flag="halves",
        panel=TRUST,
        least=0,
        absent="20; without ICA where that is expensive",
    )
    starts: int | None = option(
        None,
        "Starts of ICA a side, of which the better half is kept.",
        panel=TRUST,
        least=1,
        absent="2, or 6 if they disagree; 1 where large or by sklearn",
    )
    measure_rows: int | None = option(
        None,
        "Rows for measures that read rows (k-NN, RSA, rank MCC, unbiased CKA): groups drawn at "
        "random.",
        panel=TRUST,
        least=50,
        absent="all",
    )
    ica: IcaSettings = field(default_factory=IcaSettings)
    denominator: Denominator = option(
        "diameter",
        "What errors are divided by in tables: the diameter of the target, as in the paper, or its "
        "RMS radius, to compare across targets. The CSV has both.",
        recorded=True,
        column="denominator",
    )
    permutation_cost: PermutationCost = option(
        "inner-product", "What the permutation maximises.", panel=CONVENTIONS, recorded=True
    )
    width_policy: WidthPolicy = option(
        "zero-pad",
        "What to do where widths differ.",
        flag="widths",
        panel=CONVENTIONS,
        recorded=True,
        column="width_policy",
    )
    map_rows: MapRows = option(
        "all",
        "Rows that fit the maps of --save-maps: all, or the training rows of the split, which "
        "leaves the held-out rows to judge what is made with the maps.",
        panel=CONVENTIONS,
    )
    on_mismatch: Literal["refuse", "intersect"] = option(
        "refuse",
        "What to do when the stores do not hold the same rows: refuse, or go on with the common "
        "rows and record it in every result.",
        recorded=True,
    )
    layers: tuple[str, ...] = option(
        (),
        "Views to take of stores given bare: all, or patterns such as 'block-*', separated by "
        "commas.",
        panel=CHOICE,
        metavar="PATTERNS",
        absent="their only view",
    )
    within: bool = option(
        False,
        "Also compare the views of one model with each other; of a single model they always are.",
        panel=CHOICE,
    )
    max_pairs: int = option(
        2000,
        "Refuse to compare more pairs than this.",
        panel=CHOICE,
        least=1,
    )
    seed: int = option(0, "Seed of everything that is random; same seed, same result.", least=0)

    def __post_init__(self) -> None:
        """Check every field against its declaration, and write names in full."""
        if isinstance(self.maps, tuple | list) and tuple(self.maps) == NO_MAPS:
            object.__setattr__(self, "maps", ())
        super().__post_init__()
        measures = tuple(measure.name for measure in measures_called(self.measures))
        object.__setattr__(self, "measures", measures)
        if not self.maps and not self.measures:
            raise InputError("maps: got none, and no measures; expected at least one")
        if self.n_folds == 1:
            raise InputError("n_folds: got 1, expected 0 or at least 2")
        if self.map_rows == "training" and (self.n_folds or not self.held_out):
            raise InputError(
                "map_rows: got training, expected a held-out share of the rows, not "
                f"{self.n_folds or 'no'} folds"
            )
        if self.n_halves == 1:
            raise InputError("n_halves: got 1, expected 0 or at least 2")
        if self.beyond_groups and self.n_null == 0:
            raise InputError("beyond_groups: got true, expected shuffles too; n_null is 0")

    @property
    def has_ica(self) -> bool:
        """Whether any of the maps needs ICA."""
        return any(KIND_OF[name].needs_ica for name in self.maps)


PRESETS = {
    # Section 4.2 and A.7.2 of the paper: four maps, in-sample, nothing else.
    "paper": CompareSettings(
        maps=PAPER_MAPS,
        held_out=0,
        n_null=0,
        n_rotations=0,
        n_halves=0,
        starts=1,
        ica=IcaSettings(solver="sklearn"),
    ),
    "quick": CompareSettings(held_out=0, n_null=0, n_rotations=0, n_halves=0, starts=1),
    "audit": CompareSettings(
        maps=ALL_MAPS,
        held_out=0,
        n_folds=5,
        n_null=99,
        n_rotations=99,
        n_halves=20,
        starts=6,
    ),
}
"""Settings under a name, for people who do not want to choose each: flags and keywords."""

PRESET_HELP = {
    "paper": "Exactly the paper's protocol.",
    "quick": "In-sample errors only: no nulls, no intervals, one start of ICA.",
    "audit": "All maps, five folds, 99 shuffles and rotations, 20 half-samples, six starts of ICA.",
}


def preset(name: str, **changes: object) -> CompareSettings:
    """Return the settings of a preset, with other values of some fields.

    Raises:
        InputError: There is no such preset, or a value is not allowed.
    """
    if name not in PRESETS:
        raise InputError(f"preset: got {name!r}, expected one of: {', '.join(PRESETS)}")
    return replace(PRESETS[name], **changes)  # type: ignore[arg-type]


def without_ica(settings: CompareSettings) -> CompareSettings:
    """Return settings without the maps that need ICA; the mean alone where none is left."""
    maps = tuple(name for name in settings.maps if not KIND_OF[name].needs_ica)
    return replace(settings, maps=maps if maps or settings.measures else ("mean",))


def settings_with(base: CompareSettings, given: Mapping[tuple[str, ...], Any]) -> CompareSettings:
    """Return settings with the options that were given, by the path of their field.

    A share held out that was given stands alone, without the folds of a preset.
    """
    if ("held_out",) in given and ("n_folds",) not in given:
        given = {**given, ("n_folds",): 0}
    return with_values(base, given)


# What is known of the rows besides what the inputs say: keywords that are not settings.
ROW_LABELS = ("ids", "groups")


class CompareKeywords(TypedDict, total=False):
    """The keywords of ``compare`` for editors and type checkers.

    What they do, allow and default to is declared in ``CompareSettings`` alone; a test compares
    the names and types.
    """

    ids: Sequence[str] | None
    groups: Iterable[Any] | None
    paper: bool
    quick: bool
    audit: bool
    maps: Names
    measures: Names
    both: bool
    split: float
    folds: int
    null: int | None
    beyond_groups: bool
    rotations: int | None
    halves: int | None
    starts: int | None
    measure_rows: int | None
    ica_solver: Literal["picard", "sklearn"]
    ica_contrast: Literal["logcosh", "exp", "cube"]
    ica_whitening: Literal["pca", "none"]
    ica_passes: int | None
    denominator: Denominator
    permutation_cost: PermutationCost
    map_rows: MapRows
    widths: WidthPolicy
    on_mismatch: Literal["refuse", "intersect"]
    layers: Names
    within: bool
    max_pairs: int
    seed: int


_OTHERS = ("against", "names", "settings", "machine", "executor", *ROW_LABELS)
COMPARE = Spoken(
    "compare",
    CompareSettings(),
    others=_OTHERS,
    presets=PRESETS,
    change=settings_with,
)


def settings_of(settings: CompareSettings | None, keywords: Mapping[str, Any]) -> CompareSettings:
    """Return the settings that a call means, given as such or by keywords.

    Raises:
        InputError: Both were given, a keyword is unknown, a value is not allowed, or there are
            several presets.

    Example:
        >>> settings_of(None, {"quick": True, "maps": ["rigid"], "seed": 3}).held_out
        0.0
    """
    options = {name: value for name, value in keywords.items() if name not in ROW_LABELS}
    maps = options.get("maps")
    if isinstance(maps, str | list | tuple) and maps in ("none", ["none"], ("none",)):
        options["maps"] = ()
    return COMPARE.settings_of(settings, options)
