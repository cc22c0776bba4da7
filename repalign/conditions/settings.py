"""Which conditions, and how they are fitted: what scoring factors and batches have in common."""

from dataclasses import dataclass, replace

from repalign.aliases import MismatchPolicy
from repalign.core.conditions.kinds import BATCH_CONDITIONS, CONDITION_NAMES
from repalign.core.ica.settings import PANEL as CONVENTIONS
from repalign.core.ica.settings import IcaSettings
from repalign.exceptions import InputError
from repalign.options import Settings, nested, option


@dataclass(frozen=True)
class TransformSettings(Settings):
    """The conditions, and how whitening and ICA are fitted.

    Attributes:
        conditions: Names of the conditions, in the order of the table.
        ica: How ICA is fitted; its start and seed follow from the run's seed, and whether rows
            are whitened first from the condition.
        components: Leading principal directions kept by the whitened conditions; None for all.
    """

    conditions: tuple[str, ...] = option(
        CONDITION_NAMES,
        "Conditions, separated by commas; ica is the one without whitening.",
        panel=CONVENTIONS,
        choices=CONDITION_NAMES,
        metavar="NAMES",
    )
    ica: IcaSettings = nested(IcaSettings(), without=("whitening",))
    components: int | None = option(
        None,
        "Leading principal directions kept by whitened conditions.",
        panel=CONVENTIONS,
        least=1,
        absent="all",
        recorded=True,
    )

    def __post_init__(self) -> None:
        """Check every field, and that no condition is asked for twice."""
        super().__post_init__()
        if len(set(self.conditions)) < len(self.conditions):
            raise InputError(f"conditions: got {', '.join(self.conditions)}, expected each once")
        if self.ica.whitening != "pca":
            raise InputError(
                "ica.whitening: got none, but it is what conditions differ in; choose the "
                "condition ica instead"
            )

    @property
    def fitted_ica(self) -> IcaSettings:
        """How ICA is fitted, on the leading directions where they are limited."""
        return replace(self.ica, max_rank=self.components, start="random")


@dataclass(frozen=True)
class StudySettings(Settings):
    """What a study of one representation in several conditions needs.

    Attributes:
        transform: The conditions and their fits.
        on_mismatch: What to do with rows that the table has no entry for.
        seed: Of random rotations, ICA starts, draws, shuffles, folds and trees.
    """

    transform: TransformSettings = nested(TransformSettings())
    on_mismatch: MismatchPolicy = option(
        "refuse",
        "What to do with rows that have no entry in the table: refuse, or go on with the others "
        "(intersect).",
        panel=CONVENTIONS,
    )
    seed: int = option(
        0, "Seed of everything that is random; same seed, same result.", panel=CONVENTIONS, least=0
    )


BATCH_TRANSFORM = replace(TransformSettings(), conditions=BATCH_CONDITIONS)
