"""Rows and columns of a matrix in an order that puts similar ones together."""

import numpy as np

from repalign.aliases import FloatArray
from repalign.workflows.tables.matrix import Matrix, arranged


def clustered(matrix: Matrix) -> Matrix:
    """Return the matrix with the leaves of an average-linkage tree, rows and columns apart."""
    values = np.full((len(matrix.rows), len(matrix.columns)), np.nan)
    for place, value in matrix.values.items():
        if value is not None:
            values[place] = value
    return arranged(matrix, leaf_order(values), leaf_order(values.T))


def leaf_order(values: FloatArray) -> list[int]:
    """Return an order of the rows in which neighbours have similar values.

    Two rows are as far apart as their values differ (root mean square) where both are known; rows
    that share no column are as far apart as any.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    n_rows = len(values)
    if n_rows < 3:
        return list(range(n_rows))
    distances = np.full((n_rows, n_rows), np.nan)
    for row in range(n_rows):
        differences = values - values[row]
        known = np.isfinite(differences)
        total = np.where(known, differences, 0.0)
        with np.errstate(invalid="ignore"):
            distances[row] = np.sqrt((total**2).sum(axis=1) / known.sum(axis=1))
    farthest = np.nanmax(distances, initial=1.0 if np.isnan(distances).all() else 0.0)
    distances = np.where(np.isnan(distances), farthest, distances)
    np.fill_diagonal(distances, 0.0)
    tree = linkage(squareform(distances, checks=False), "average", optimal_ordering=True)
    return [int(leaf) for leaf in leaves_list(tree)]
