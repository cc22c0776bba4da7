"""The options of studies of one representation as keywords, for editors and type checkers.

What they do, allow and default to is declared in the settings alone; a test compares the names
and types.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict

from repalign.core.factors.kinds import InfoMecPreset
from repalign.deconfounding.settings import BatchSettings, FitOn
from repalign.disentanglement.settings import FactorSettings
from repalign.spoken import Names, Spoken


class StudyKeywords(TypedDict, total=False):
    """What both kinds of study take."""

    conditions: Names
    ica_solver: Literal["picard", "sklearn"]
    ica_contrast: Literal["logcosh", "exp", "cube"]
    ica_passes: int | None
    components: int | None
    on_mismatch: Literal["refuse", "intersect"]
    seed: int


class FactorKeywords(StudyKeywords, total=False):
    """The keywords of ``disentangle``."""

    factor: Names
    discrete: Names
    continuous: Names
    scores: Names
    infomec: InfoMecPreset
    discrete_latents: bool
    bins: int
    seeds: int
    null: int
    halves: int
    max_rows: int


class BatchKeywords(StudyKeywords, total=False):
    """The keywords of ``deconfound``."""

    protocols: Names
    folds: int
    control: str | None
    permuted: int
    top: Sequence[float]
    fit_on: FitOn


DISENTANGLE = Spoken(
    "disentangle", FactorSettings(), others=("factors", "groups", "settings", "machine", "executor")
)
DECONFOUND = Spoken(
    "deconfound",
    BatchSettings(),
    others=("columns", "labels", "batch", "settings", "machine", "executor"),
)
