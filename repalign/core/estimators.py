"""The maps as scikit-learn estimators, for pipelines, searches and cross-validation."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from repalign.aliases import Rows
from repalign.core.ica.fit import IcaSettings, fit_ica
from repalign.core.ica.matching import ica_map, match_components
from repalign.core.maps.affine import AffineMap
from repalign.core.maps.kinds import FITTERS, fit_map
from repalign.core.moments import PairMoments, pair_moments
from repalign.core.rows import ArrayRows
from repalign.exceptions import InputError

ICA_KINDS = ("ica", "ica+scale")


def fit_ica_map(
    source: Rows, target: Rows, moments: PairMoments, *, scale: bool, seed: int
) -> AffineMap:
    """Fit the ICA of both sides, each alone and from a start of its own, and match them."""
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
    matching = match_components(moments, first, second).matching
    return ica_map(moments, first, second, matching, scale=scale)


class AlignmentRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Predict the rows of one representation from those of another by a fitted map.

    Args:
        kind: One of ``mean, identity, permutation, permutation+scale, rigid, rigid-noscale,
            linear, ica, ica+scale``.
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
        return tags

    def fit(self, X: Any, y: Any) -> "AlignmentRegressor":
        """Fit the map from rows X to rows y; one column may be given as a vector.

        Raises:
            InputError: The kind is unknown or does not suit the widths.
        """
        kinds = (*FITTERS, *ICA_KINDS)
        if self.kind not in kinds:
            raise InputError(f"kind: got {self.kind!r}, expected one of: {', '.join(kinds)}")
        source, target = validate_data(
            self,
            X,
            y,
            dtype=[np.float64, np.float32],
            y_numeric=True,
            multi_output=True,
            ensure_min_samples=2 if self.kind in ICA_KINDS else 1,
        )
        self._is_vector = target.ndim == 1
        target = target.reshape(len(target), -1).astype(source.dtype)
        rows = ArrayRows(source), ArrayRows(target)
        (moments,) = pair_moments(*rows)
        if self.kind in ICA_KINDS:
            self.map_ = fit_ica_map(*rows, moments, scale=self.kind == "ica+scale", seed=self.seed)
        else:
            self.map_ = fit_map(self.kind, moments)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target rows."""
        check_is_fitted(self)
        source = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        predicted = self.map_.apply(source)
        return predicted[:, 0] if self._is_vector else predicted
