"""What can be said of fitted components, and the order and signs in which they are kept.

A search ends at its components in any order and with any signs; both depend on the start, and
where the search is long on the rounding of sums, which differs by processor and by the number
of threads. Neither touches a map between representations, but both are seen in saved
components.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from repalign.core.ica.contrast import Contrast
from repalign.core.ica.data import WhitenedRows
from repalign.core.ica.fastica import Unmixing

# Below one standard error the sign of a mean says nothing.
SIGN_KNOWN = 1.0


def gaussian_excess(rank: int, n_rows: int) -> float:
    """Return how far |E log cosh y − that of a normal y| gets in ICA fits of Gaussian rows.

    A law that keeps at or above the largest of 4 to 30 fits in 52 shapes, k from 3 to 100 and k/n
    from 0.002 to 0.95 (0.97 of it at least, 1.17 in the median). The last term is the chance of a
    single direction; the others grow as more directions are searched. With k = n − 1 the rows are
    the corners of a regular simplex, whatever they hold, and their components stay below it too.
    """
    share = rank / n_rows
    return (0.12 + 0.16 * np.sqrt(share) + 0.1 / np.sqrt(rank)) * np.sqrt(share)


@dataclass(frozen=True, eq=False)
class ComponentReport:
    """Statistics of components over the rows that were fitted.

    Attributes:
        gradient_rms: Root mean square of the off-diagonal skew gradient of the contrast.
        contrast_value: −Σ|E G(y) − E G(normal)|; lower is more non-Gaussian.
        kurtosis: Excess kurtosis of each component.
        order: Component number to take for each place, the least Gaussian first; everything else
            here is in the order of the rotation.
        sign: Sign of each, after which E y³ > 0.
        is_sign_arbitrary: Whether E y³ is within its standard error of zero, so that other rows of
            the same law might turn the component round.
        n_identifiable: Components less Gaussian than any found in Gaussian data of this size;
            None where the contrast has no measured threshold.
    """

    gradient_rms: float
    contrast_value: float
    kurtosis: Float[np.ndarray, " k"]
    order: Int[np.ndarray, " k"]
    sign: Float[np.ndarray, " k"]
    is_sign_arbitrary: Bool[np.ndarray, " k"]
    n_identifiable: int | None


def report_components(
    data: WhitenedRows, contrast: Contrast, rotation: Float[np.ndarray, "k k"]
) -> ComponentReport:
    """Return the report of the components ``rotation @ z`` in one pass over the rows."""
    rank, n_rows = len(rotation), data.n_rows
    w = torch.from_numpy(rotation.T.copy()).to(device=data.device, dtype=torch.float32)
    product = torch.zeros((rank, rank), dtype=torch.float64, device=data.device)
    slope, value, second, third, fourth, sixth = (
        torch.zeros(rank, dtype=torch.float64, device=data.device) for _ in range(6)
    )
    for block in data.blocks():
        y = block @ w
        square = y * y
        second += square.sum(0)
        cube = square * y
        third += cube.sum(0)
        fourth += (square * square).sum(0)
        sixth += (cube * cube).sum(0)
        value += contrast.value(y).sum(0)
        kept = y.clone()
        slope += contrast.score(y, square)
        product += y.T @ kept
    mean_product = product.cpu().numpy() / n_rows
    signs = np.where(slope.cpu().numpy() / n_rows < np.diag(mean_product), -1.0, 1.0)
    signed = signs[:, None] * mean_product
    gradient = (signed - signed.T) / 2
    excess = np.abs(value.cpu().numpy() / n_rows - contrast.gaussian_mean)
    threshold = gaussian_excess(rank, n_rows)
    variance = np.maximum(second.cpu().numpy() / n_rows, np.finfo(np.float64).tiny)
    third_mean = third.cpu().numpy() / n_rows
    third_error = np.sqrt((sixth.cpu().numpy() / n_rows - third_mean**2).clip(min=0) / n_rows)
    known = contrast.name == "logcosh"
    return ComponentReport(
        gradient_rms=float(np.linalg.norm(gradient) / np.sqrt(max(rank * (rank - 1), 1))),
        contrast_value=-float(excess.sum()),
        kurtosis=fourth.cpu().numpy() / n_rows / variance**2 - 3.0,
        order=np.argsort(-excess, kind="stable"),
        sign=np.where(third_mean < 0, -1.0, 1.0),
        is_sign_arbitrary=np.abs(third_mean) < SIGN_KNOWN * third_error,
        n_identifiable=int(np.count_nonzero(excess > threshold)) if known else None,
    )


def ica_warnings(
    solved: Unmixing, report: ComponentReport, *, n_fit_rows: int, is_whitened: bool
) -> tuple[str, ...]:
    """Return what a user should know before reading anything into the components."""
    rank = len(solved.unmixing)
    warnings = []
    if not solved.converged:
        warnings.append(
            f"ICA stopped after {solved.n_iter} passes without converging (gradient rms "
            f"{report.gradient_rms:.1e}); its error may be far from the optimum's"
        )
    if not is_whitened and solved.n_iter <= 1:
        warnings.append("ICA without whitening stopped at its first iteration: nothing was unmixed")
    if report.n_identifiable is not None and report.n_identifiable < rank / 2:
        warnings.append(
            f"only {report.n_identifiable} of {rank} components differ from what ICA finds in "
            "Gaussian data: the others are arbitrary"
        )
    if n_fit_rows < 0.35 * rank**2:
        warnings.append(
            f"ICA of {rank} components was fitted on {n_fit_rows} rows, fewer than 0.35 k²; "
            "a poor match may mean too few rows, not different representations"
        )
    return tuple(warnings)
