"""Groups of rows as users give them: one a row, of whatever kind."""

from typing import Any

import numpy as np

from repalign.aliases import IntArray
from repalign.arguments import listed
from repalign.exceptions import InputError
from repalign.store.source import EmbeddingSource


def group_numbers(groups: Any, source: EmbeddingSource) -> IntArray:
    """Return the number of the group of every row of a source.

    Raises:
        InputError: Not one group a row, or values of which none is equal to another.
    """
    labels = listed("groups", groups, "groups, one a row")
    if len(labels) != source.n_rows:
        raise InputError(
            f"groups: got {len(labels)} for the {source.n_rows} rows of {source.name}; expected "
            "one a row"
        )
    try:
        values = np.asarray(labels)
        numbers: IntArray = np.unique(values, return_inverse=True)[1].astype(np.int64)
    except (TypeError, ValueError):  # values of several kinds, or of several lengths
        values = np.empty(0)
    if values.shape != (source.n_rows,):
        raise InputError("groups: got values of several kinds, expected a text or number a row")
    return numbers
