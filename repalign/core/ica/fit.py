"""Independent component analysis of one representation, told in full."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from repalign.aliases import Rows
from repalign.core.device import fast_float32
from repalign.core.ica.components import IcaFit as IcaFit  # what a fit returns
from repalign.core.ica.contrast import CONTRASTS
from repalign.core.ica.data import WhitenedRows, sample_rows, whiten_rows, whiten_sample
from repalign.core.ica.diagnostics import ComponentReport, ica_warnings, report_components
from repalign.core.ica.fastica import Unmixing, fit_fastica, fit_fastica_unwhitened
from repalign.core.ica.picard import Stopping, fit_rotation
from repalign.core.ica.settings import IcaSettings
from repalign.core.linalg import Whitening, fit_whitening
from repalign.core.rows import DEFAULT_MEMORY
from repalign.exceptions import InputError


def fit_ica(
    rows: Rows,
    *,
    mean: Float[np.ndarray, " d"],
    covariance: Float[np.ndarray, "d d"],
    settings: IcaSettings | None = None,
    memory_bytes: int = DEFAULT_MEMORY,
    device: str = "cpu",
    on_progress: Callable[[int, int], None] | None = None,
) -> IcaFit:
    """Fit ICA on all components of the numerical rank.

    ``mean`` and ``covariance`` are those of all rows given (from their moments); the rotation
    is fitted on ``settings.n_fit_rows`` of them. The result depends on the data, the settings
    and the number of rows that fit in memory, never on the clock or on global random state.

    Raises:
        InputError: Nothing varies, or a value is not finite.
    """
    settings = settings or IcaSettings()
    prepared = prepare(
        rows,
        mean=mean,
        covariance=covariance,
        settings=settings,
        memory_bytes=memory_bytes,
        device=device,
    )
    return prepared.fit(settings.seed, on_progress)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows made ready for the search once, for any number of starts.

    Attributes:
        rows: The rows to fit on, or of which a sample is fitted.
        mean: Of all of them.
        covariance: Of all of them.
        settings: What was asked for; its seed chose the sample.
        whitening: Of all of them; None where none is wanted.
        data: The whitened rows; None where a solver reads the rows itself.
        own: Whitened the rows again, where they are a sample of all.
    """

    rows: Rows
    mean: Float[np.ndarray, " d"]
    covariance: Float[np.ndarray, "d d"]
    settings: IcaSettings
    whitening: Whitening | None = None
    data: WhitenedRows | None = None
    own: Float[np.ndarray, "k k"] | None = None

    def fit(self, seed: int, on_progress: Callable[[int, int], None] | None = None) -> IcaFit:
        """Fit from the start of a seed: the fit that this seed would give alone."""
        start = replace(self.settings, seed=seed)
        if self.whitening is None:
            return _fit_unwhitened(self.rows, self.mean, self.covariance, start)
        if self.data is None:
            return _fit_sklearn(self.rows, self.whitening, start)
        with fast_float32(self.data.device):
            return _fit_picard(self.data, self.own, self.whitening, start, on_progress)


def prepare(
    rows: Rows,
    *,
    mean: Float[np.ndarray, " d"],
    covariance: Float[np.ndarray, "d d"],
    settings: IcaSettings,
    memory_bytes: int = DEFAULT_MEMORY,
    device: str = "cpu",
) -> Prepared:
    """Choose and whiten the rows that every start is fitted on.

    Raises:
        InputError: As ``fit_ica``.
    """
    plain = Prepared(rows, mean, covariance, settings)
    if settings.whitening == "none":
        return plain
    whitening = fit_whitening(
        mean,
        covariance,
        epsilon=float(np.finfo(rows.dtype).eps),
        n_rows=rows.shape[0],
        max_rank=settings.max_rank,
    )
    if settings.solver == "sklearn":
        return replace(plain, whitening=whitening)
    wanted = settings.n_fit_rows or max(int(0.7 * whitening.rank**2), 50_000)
    fitted = sample_rows(rows, wanted, seed=settings.seed)
    with fast_float32(device):
        data = whiten_rows(fitted, whitening, memory_bytes=memory_bytes, device=device)
        own = None
        if fitted is not rows:
            data, own = whiten_sample(data)
    return replace(plain, whitening=whitening, data=data, own=own)


def _fit_picard(
    data: WhitenedRows,
    own: Float[np.ndarray, "k k"] | None,
    whitening: Whitening,
    settings: IcaSettings,
    on_progress: Callable[[int, int], None] | None,
) -> IcaFit:
    """Search from one start; ``own`` whitened the rows again where they are a sample of all."""
    contrast = CONTRASTS[settings.contrast]
    search = fit_rotation(
        data,
        contrast,
        start_rotation(whitening, settings),
        stopping=Stopping(settings.passes, settings.tolerance),
        seed=settings.seed,
        on_progress=on_progress,
    )
    report = report_components(data, contrast, search.rotation)
    rotation = search.rotation
    if own is not None:
        # The nearest rotation of all rows' whitening, so that the components have unit
        # covariance on all rows and not on the sample.
        left, _, right = np.linalg.svd(rotation @ own)
        rotation = left @ right
    solved = Unmixing(
        rotation @ whitening.matrix,
        whitening.inverse @ rotation.T,
        search.passes,
        search.converged,
    )
    return _describe(whitening.mean, solved, report, data.n_rows, settings)


def start_rotation(whitening: Whitening, settings: IcaSettings) -> Float[np.ndarray, "k k"]:
    """Return the orthogonal matrix at which the search begins.

    A random start is drawn in the coordinates of the rows, not of their principal directions.
    Those are shared by representations that differ by a rotation; a start fixed in them would
    be shared too, and would end at the same arbitrary rotation where nothing is identifiable:
    two rotated copies of Gaussian data would seem to have the same components.
    """
    if settings.start == "pca":
        return np.eye(whitening.rank)
    directions = whitening.inverse / np.sqrt(whitening.variances)
    rng = np.random.default_rng(settings.seed)
    q, r = np.linalg.qr(rng.standard_normal(directions.T.shape) @ directions)
    return q * np.sign(np.diag(r))


def _fit_sklearn(rows: Rows, whitening: Whitening, settings: IcaSettings) -> IcaFit:
    fitted = sample_rows(rows, settings.n_fit_rows or rows.shape[0], seed=settings.seed)
    solved = fit_fastica(
        fitted,
        rank=whitening.rank,
        contrast=settings.contrast,
        seed=settings.seed,
        max_iter=settings.passes,
        tolerance=settings.sklearn_tolerance,
    )
    report = _report_unmixing(fitted, whitening.mean, solved, settings)
    return _describe(whitening.mean, solved, report, fitted.shape[0], settings)


def _fit_unwhitened(
    rows: Rows,
    mean: Float[np.ndarray, " d"],
    covariance: Float[np.ndarray, "d d"],
    settings: IcaSettings,
) -> IcaFit:
    scale = float(np.sqrt(np.trace(covariance) / len(covariance)))
    if scale == 0:
        raise InputError("the rows do not vary: there is nothing to unmix; check the input")
    fitted = sample_rows(rows, settings.n_fit_rows or rows.shape[0], seed=settings.seed)
    solved = fit_fastica_unwhitened(
        fitted,
        mean,
        scale=scale,
        contrast=settings.contrast,
        seed=settings.seed,
        max_iter=settings.passes,
        tolerance=settings.sklearn_tolerance,
    )
    report = _report_unmixing(fitted, mean, solved, settings)
    return _describe(mean, solved, report, fitted.shape[0], settings)


def _report_unmixing(
    rows: Rows, mean: Float[np.ndarray, " d"], solved: Unmixing, settings: IcaSettings
) -> ComponentReport:
    """Report on components that were found outside: the unmixing takes the whitening's place."""
    rank = len(solved.unmixing)
    stand_in = Whitening(mean, solved.unmixing, solved.mixing, np.ones(rank), 0, 0.0)
    data = WhitenedRows(rows=rows, whitening=stand_in, device="cpu", resident=None)
    return report_components(data, CONTRASTS[settings.contrast], np.eye(rank))


def _describe(
    mean: Float[np.ndarray, " d"],
    solved: Unmixing,
    report: ComponentReport,
    n_fit_rows: int,
    settings: IcaSettings,
) -> IcaFit:
    order, sign = report.order, report.sign[:, None]
    return IcaFit(
        mean=mean,
        unmixing=(sign * solved.unmixing)[order],
        mixing=(sign * solved.mixing.T)[order].T,
        n_iter=solved.n_iter,
        converged=solved.converged,
        gradient_rms=report.gradient_rms,
        contrast_value=report.contrast_value,
        kurtosis=report.kurtosis[order],
        is_sign_arbitrary=report.is_sign_arbitrary[order],
        n_identifiable=report.n_identifiable,
        n_fit_rows=n_fit_rows,
        settings=settings,
        warnings=ica_warnings(
            solved, report, n_fit_rows=n_fit_rows, is_whitened=settings.whitening != "none"
        ),
    )
