"""Choices of an ICA fit, each declared once; light, so that the command line can read it."""

from dataclasses import dataclass
from typing import Literal

from repalign.exceptions import InputError
from repalign.options import Settings, option

IcaSolver = Literal["picard", "sklearn"]
IcaContrast = Literal["logcosh", "exp", "cube"]
IcaWhitening = Literal["pca", "none"]
IcaStart = Literal["pca", "random"]

PANEL = "Conventions (the paper's by default)"
DEFAULT_PASSES: dict[IcaSolver, int] = {"picard": 400, "sklearn": 200}
"""Passes at most where none are asked for: picard's converge in fewer, sklearn's are its own."""
WHITENED_BYTES = 6
"""Memory of one whitened value: in single precision, and rounded to half of that besides."""


@dataclass(frozen=True)
class IcaSettings(Settings):
    """Choices of an ICA fit.

    Attributes:
        solver: ``picard`` converges to a gradient norm that is reported; ``sklearn`` is FastICA
            as scikit-learn ships it, as in the paper, converged or not.
        contrast: ``logcosh`` (as the paper and scikit-learn), ``exp`` or ``cube``.
        whitening: ``pca`` on the numerical rank, or ``none`` (the paper's disentanglement runs;
            scikit-learn's solver only): centred and divided by one global number.
        max_passes: Passes over the rows (sklearn: iterations) after which it stops; None for
            those of ``DEFAULT_PASSES``.
        start: ``random`` begins at a rotation drawn from the seed, ``pca`` at the principal
            directions, which makes rotated copies agree even where nothing is identifiable.
        seed: Of the random start and of the choice of rows.
        tolerance: Root mean square of the gradient that counts as converged (sklearn has its
            own criterion: set ``sklearn_tolerance``).
        n_fit_rows: Rows to fit on; None: max(0.7 k², 50 000), beyond which nothing improves
            (sklearn: all rows).
        max_rank: Fit at most this many leading principal directions.
        sklearn_tolerance: ``tol`` of scikit-learn's FastICA.

    Example:
        >>> IcaSettings(contrast="exp").passes
        400
    """

    solver: IcaSolver = option(
        "picard",
        "picard converges; sklearn is FastICA with its defaults, as in the paper.",
        flag="ica-solver",
        panel=PANEL,
        recorded=True,
    )
    contrast: IcaContrast = option(
        "logcosh", "Nonlinearity of ICA.", flag="ica-contrast", panel=PANEL, recorded=True
    )
    whitening: IcaWhitening = option(
        "pca",
        "Whiten first, or only centre and scale by one number (sklearn only).",
        flag="ica-whitening",
        panel=PANEL,
        recorded=True,
    )
    max_passes: int | None = option(
        None,
        "Passes of ICA at most.",
        flag="ica-passes",
        panel=PANEL,
        least=1,
        absent=", ".join(f"{passes} for {name}" for name, passes in DEFAULT_PASSES.items()),
        recorded="passes",
    )
    start: IcaStart = option("random", "Where the search begins.", flag="")
    seed: int = option(0, "Seed of the start and of the choice of rows.", flag="", least=0)
    tolerance: float = option(3e-5, "Gradient that counts as converged.", flag="", least=0)
    n_fit_rows: int | None = option(None, "Rows to fit on.", flag="", least=1)
    max_rank: int | None = option(None, "Leading principal directions at most.", flag="", least=1)
    sklearn_tolerance: float = option(1e-4, "Tolerance of sklearn.", flag="", least=0)

    def __post_init__(self) -> None:
        """Check every field, and that they suit each other."""
        super().__post_init__()
        if self.whitening == "none" and self.solver != "sklearn":
            raise InputError(
                "ICA without whitening was asked of the picard solver; expected the sklearn "
                "solver: use --ica-solver sklearn, or keep the whitening"
            )

    @property
    def passes(self) -> int:
        """Passes after which it stops, as asked for or by the solver."""
        return self.max_passes or DEFAULT_PASSES[self.solver]
