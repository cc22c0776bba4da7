"""The maps as scikit-learn estimators, for pipelines, searches and cross-validation."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from repalign.aliases import Rows
from repalign.core.ica.fit import fit_ica
from repalign.core.ica.settings import IcaSettings
from repalign.core.maps import KIND_OF, MAP_KINDS, IcaPair, fit_map
from repalign.core.moments import PairMoments, pair_moments
from repalign.core.rows import ArrayRows
from repalign.exceptions import InputError

# Those that predict the target itself.
KINDS = tuple(kind.name for kind in MAP_KINDS if not kind.in_components)


def fit_both_ica(source: Rows, target: Rows, moments: PairMoments, *, seed: int) -> IcaPair:
    """Fit the ICA of both sides, each alone and from a start of its own."""
    sides = (
        (source, moments.mean_x, moments.sxx, seed),
        (target, moments.mean_y, moments.syy, seed + 1),
    )
    first, second = (
        fit_ica(
            rows,
            mean=mean,
            covariance=scatter / moments.n,
            settings=IcaSettings(start="random", seed=start),
        )
        for rows, mean, scatter, start in sides
    )
    return first, second


class AlignmentRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Predict the rows of one representation from those of another by a fitted map.

    Args:
        kind: Name of a map, of ``repalign.core.estimators.KINDS``.
        seed: Seed of the starts of ICA; the other maps have nothing random.

    Attributes:
        map_: The fitted ``AffineMap``.
        n_features_in_: Width of the source.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).standard_normal((50, 3))
        >>> y = 2 * x[:, ::-1] + 1
        >>> round(AlignmentRegressor("rigid").fit(x, y).score(x, y), 6)
        1.0
    """

    # scikit-learn's contract: stored untouched whatever it is, and judged by fit
    def __init__(self, kind: Any = "rigid", seed: Any = 0) -> None:
        self.kind = kind
        self.seed = seed

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # Only least squares can follow one target among ten features, as the checks ask.
        tags.regressor_tags.poor_score = self.kind != "linear"
        if self.kind in KINDS and KIND_OF[self.kind].needs_equal_widths:
            tags.target_tags.single_output = False
        return tags

    def fit(self, X: Any, y: Any) -> "AlignmentRegressor":
        """Fit the map from rows X to rows y; one column may be given as a vector.

        Raises:
            InputError: The kind is unknown or does not suit the widths.
        """
        if self.kind not in KINDS:
            raise InputError(f"kind: got {self.kind!r}, expected one of: {', '.join(KINDS)}")
        needs_ica = KIND_OF[self.kind].needs_ica
        source, target = validate_data(
            self,
            X,
            y,
            dtype=[np.float64, np.float32],
            y_numeric=True,
            multi_output=True,
            ensure_min_samples=2 if needs_ica else 1,
        )
        self._is_vector = target.ndim == 1
        target = target.reshape(len(target), -1).astype(source.dtype)
        rows = ArrayRows(source), ArrayRows(target)
        (moments,) = pair_moments(*rows)
        ica = fit_both_ica(*rows, moments, seed=self.seed) if needs_ica else None
        self.map_ = fit_map(self.kind, moments, ica)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target rows."""
        check_is_fitted(self)
        source = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        predicted = self.map_.apply(source)
        return predicted[:, 0] if self._is_vector else predicted
