"""Arrays, tensors and data frames as sets of embeddings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from repalign.aliases import Rows
from repalign.arguments import checked, is_a
from repalign.exceptions import InputError
from repalign.rows import ArrayRows
from repalign.store.foreign.contents import check_matrix_shape, texts_of
from repalign.store.foreign.torch_files import tensor_rows
from repalign.store.joining.index import pooled_index
from repalign.store.reading.store import Store, StoreView
from repalign.store.rows.floats import FloatRows, unmasked
from repalign.store.sources.opening import open_embeddings
from repalign.store.sources.source import EmbeddingSource, with_ids

if TYPE_CHECKING:
    import pandas as pd
    import torch

Embeddings: TypeAlias = (
    "EmbeddingSource | Store | Rows | str | Path | NDArray[Any] | torch.Tensor | pd.DataFrame"
    " | Sequence[Any]"
)


@checked
def as_source(
    embeddings: Embeddings, *, ids: Sequence[str] | None = None, name: str = "array"
) -> EmbeddingSource:
    """Return embeddings of any kind as a source; paths are opened, sources are passed on.

    Args:
        embeddings: a source, a path (``file::view``), an open store of one view, a numpy array, a
            torch tensor, a pandas frame (its index gives the ids, unless it is a plain range),
            nested lists, or anything that is read in slices (``Rows``).
        ids: one id per row, for embeddings that carry none; their own ids are kept.
        name: how messages and results call an object in memory.

    Raises:
        InputError: not a matrix of finite numbers, or not one id per row.

    Example:
        >>> import numpy as np
        >>> source = as_source(np.eye(2), name="mine", ids=["cat", "dog"])
        >>> source.name, source.n_rows, source.identity
        ('mine', 2, 'ids')
    """
    if isinstance(embeddings, EmbeddingSource):
        source = embeddings
    elif isinstance(embeddings, str | Path):
        source = open_embeddings(embeddings)
    elif isinstance(embeddings, Store):
        source = open_embeddings(embeddings.path)
    else:
        source = _object_source(embeddings, name=name)
    return source if ids is None else with_ids(source, ids)


def _object_source(values: Any, *, name: str) -> EmbeddingSource:
    """Return an object in memory as a source; only a frame has ids."""
    raw: Rows
    ids: Sequence[str] | None = None
    columns: tuple[str, ...] | None = None
    is_bfloat16 = False
    if isinstance(values, StoreView):
        raise InputError(
            f"{name}: is a view without the identity of its rows; give the path, store.h5::view"
        )
    if isinstance(values, Mapping):
        raise InputError(
            f"{name}: got a dictionary, expected a matrix; give one of its values, or a data frame"
        )
    if isinstance(values, Rows):
        raw = values
    elif is_a(values, "torch", "Tensor"):
        raw, is_bfloat16 = tensor_rows(values, label=name)
    elif is_a(values, "pandas", "DataFrame"):
        raw = _array_rows(_frame_values(values, name=name), name=name)
        ids = frame_ids(values, name=name)
        columns = tuple(map(str, values.columns))
    else:
        raw = _array_rows(_plain_array(values, name=name), name=name)
    rows = FloatRows(raw, label=name, bfloat16=is_bfloat16)
    return EmbeddingSource(
        name=name,
        path=None,
        view=name,
        rows=rows,
        index=pooled_index(rows.shape[0], ids=ids),
        identity="row order" if ids is None else "ids",
        info={"layout": f"{type(values).__name__} in memory"},
        columns=columns,
    )


def _plain_array(values: Any, *, name: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = unmasked(values, label=name)
        return array
    except ValueError as error:
        raise InputError(
            f"{name}: is no matrix of numbers ({error}); give rows of one length"
        ) from error


def _array_rows(array: NDArray[Any], *, name: str) -> ArrayRows:
    check_matrix_shape(array.shape, label=name)
    return ArrayRows(array)


def _frame_values(frame: "pd.DataFrame", *, name: str) -> NDArray[Any]:
    bad = [str(column) for column in frame.columns if frame[column].dtype.kind not in "fiub"]
    if bad:
        raise InputError(
            f"{name}: the column {bad[0]!r} holds no numbers; keep only the columns of the "
            "embedding and put the ids into the index"
        )
    return frame.to_numpy()


def frame_ids(frame: "pd.DataFrame", *, name: str) -> list[str] | None:
    """Return the index of a frame as ids; None of a plain range.

    Raises:
        InputError: it has several levels.
    """
    import pandas as pd

    if isinstance(frame.index, pd.RangeIndex):
        return None
    if isinstance(frame.index, pd.MultiIndex):
        raise InputError(f"{name}: has an index of several levels; give one id per row")
    return texts_of(frame.index.to_numpy(), label=f"{name} (index)")
