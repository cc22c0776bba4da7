"""The maps as scikit-learn estimators, for pipelines, searches and cross-validation."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from repalign.core.fit import FITTERS, fit_map
from repalign.core.moments import pair_moments
from repalign.core.rows import ArrayRows
from repalign.exceptions import InputError


class AlignmentRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Predict the rows of one representation from those of another by a fitted map.

    Args:
        kind: One of ``mean, identity, permutation, permutation+scale, rigid, rigid-noscale,
            linear``.

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
    def __init__(self, kind: Any = "rigid") -> None:
        self.kind = kind

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # Only least squares can follow one target among ten features, as the checks ask.
        tags.regressor_tags.poor_score = self.kind != "linear"
        return tags

    def fit(self, X: Any, y: Any) -> "AlignmentRegressor":
        """Fit the map from rows X to rows y; one column may be given as a vector.

        Raises:
            InputError: The kind is unknown or does not suit the widths.
        """
        if self.kind not in FITTERS:
            raise InputError(f"kind: got {self.kind!r}, expected one of: {', '.join(FITTERS)}")
        source, target = validate_data(
            self, X, y, dtype=[np.float64, np.float32], y_numeric=True, multi_output=True
        )
        self._is_vector = target.ndim == 1
        target = target.reshape(len(target), -1).astype(source.dtype)
        (moments,) = pair_moments(ArrayRows(source), ArrayRows(target))
        self.map_ = fit_map(self.kind, moments)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target rows."""
        check_is_fitted(self)
        source = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        predicted = self.map_.apply(source)
        return predicted[:, 0] if self._is_vector else predicted
