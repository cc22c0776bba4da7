"""Every convention of ``compare`` that changes a number, with the paper's choice as default."""

from dataclasses import dataclass
from typing import Literal

from repalign.core.maps.kinds import ALL_MAPS, KIND_OF, PAPER_MAPS
from repalign.exceptions import InputError

WidthPolicy = Literal["zero-pad", "pca", "refuse"]
PermutationCost = Literal["inner-product", "correlation"]
IcaSolver = Literal["picard", "sklearn"]
IcaContrast = Literal["logcosh", "exp", "cube"]
IcaWhitening = Literal["pca", "none"]
IcaRows = Literal["same", "disjoint"]
DiameterRows = Literal["judged", "all"]


@dataclass(frozen=True)
class CompareSettings:
    """What to fit, how to judge it, and how much to spend on trusting it.

    Attributes:
        maps: Names of the maps, of ``MAP_KINDS``.
        held_out: Share of the groups of rows held out to judge maps fitted on the rest; 0 for
            in-sample errors only.
        n_folds: Instead of one held-out share, k folds that are all judged once; 0 for none.
        n_null: Shuffles of the pairing for the null; None takes what a small budget allows.
        n_gaussian: Gaussian twins for the null of the ICA efficiency; None takes one where it
            costs little.
        n_bootstrap: Bootstrap draws for the intervals; 0 for none.
        ica_solver: ``picard`` converges to a gradient norm that is reported; ``sklearn`` is
            FastICA with its defaults, as in the paper, converged or not.
        ica_contrast: Nonlinearity of the contrast.
        ica_whitening: ``pca`` on the numerical rank, or ``none`` (sklearn only): centred, and
            divided by one number.
        ica_max_passes: Passes over the rows at most; None for 400 (picard) or 200 (sklearn, its
            default and the paper's).
        ica_seeds: Fits per space; more than one tells how far restarts agree.
        ica_rows: ``disjoint`` fits the ICA of the two spaces on different halves of the rows,
            so that nothing but what holds on new rows can match.
        permutation_cost: What the assignment of columns maximises.
        width_policy: What to do with spaces of different widths.
        both_directions: Also map the target back to the source.
        diameter_rows: Which target rows set the diameter: those that are judged, or all.
        on_mismatch: Refuse stores whose rows differ, or go on with the common rows.
        seed: Seed of splits, nulls, draws and ICA.
    """

    maps: tuple[str, ...] = ("mean", *PAPER_MAPS)
    held_out: float = 0.2
    n_folds: int = 0
    n_null: int | None = None
    n_gaussian: int | None = None
    n_bootstrap: int = 1000
    ica_solver: IcaSolver = "picard"
    ica_contrast: IcaContrast = "logcosh"
    ica_whitening: IcaWhitening = "pca"
    ica_max_passes: int | None = None
    ica_seeds: int = 1
    ica_rows: IcaRows = "same"
    permutation_cost: PermutationCost = "inner-product"
    width_policy: WidthPolicy = "zero-pad"
    both_directions: bool = False
    diameter_rows: DiameterRows = "judged"
    on_mismatch: Literal["refuse", "intersect"] = "refuse"
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.maps if name not in ALL_MAPS]
        if unknown:
            raise InputError(
                f"maps: got {', '.join(unknown)}, expected some of: {', '.join(ALL_MAPS)}"
            )
        if not self.maps:
            raise InputError("maps: got none, expected at least one")
        if not 0 <= self.held_out < 1:
            raise InputError(f"held-out share: got {self.held_out}, expected 0 up to 1")
        if self.n_folds == 1 or self.n_folds < 0:
            raise InputError(f"folds: got {self.n_folds}, expected 0 or at least 2")

    @property
    def has_ica(self) -> bool:
        """Whether any of the maps needs ICA."""
        return any(KIND_OF[name].needs_ica for name in self.maps)


def paper_settings() -> CompareSettings:
    """Return the paper's protocol (section 4.2, A.7.2): four maps, in-sample, nothing beside."""
    return CompareSettings(
        maps=PAPER_MAPS,
        held_out=0,
        n_null=0,
        n_gaussian=0,
        n_bootstrap=0,
        ica_solver="sklearn",
    )


def quick_settings() -> CompareSettings:
    """Return in-sample errors of the default maps, without nulls."""
    return CompareSettings(held_out=0, n_null=0, n_gaussian=0)


def audit_settings() -> CompareSettings:
    """Return everything that helps to believe the numbers, whatever it costs."""
    return CompareSettings(
        maps=ALL_MAPS,
        held_out=0,
        n_folds=5,
        n_null=99,
        n_gaussian=5,
        n_bootstrap=2000,
        ica_seeds=5,
    )
