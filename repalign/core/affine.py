"""One affine form for every map between two representations, applied to arrays, tensors, frames."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from jaxtyping import Float, Integer

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.arguments import is_a
from repalign.exceptions import InputError

if TYPE_CHECKING:
    import pandas
    import torch


@dataclass(frozen=True, eq=False)
class AffineMap:
    """The map x ↦ x·matrix + shift from source rows to target rows.

    Attributes:
        kind: How it was fitted, one of ``MAP_KINDS``, or what made it.
        matrix: p×q.
        shift: Length q.

    Example:
        >>> import numpy as np
        >>> double = AffineMap("linear", 2 * np.eye(2), np.ones(2))
        >>> double.apply(np.array([[1.0, 2.0]]))
        array([[3., 5.]])
        >>> double.inverse().apply(np.array([[3.0, 5.0]]))
        array([[1., 2.]])
    """

    kind: str
    matrix: Float[np.ndarray, "p q"]
    shift: Float[np.ndarray, " q"]

    @property
    def source_dim(self) -> int:
        """Width p of the rows that it takes."""
        return int(self.matrix.shape[0])

    @property
    def target_dim(self) -> int:
        """Width q of the rows that it gives."""
        return int(self.matrix.shape[1])

    @cached_property
    def entries(self) -> tuple[IntArray, FloatArray] | None:
        """Source column and factor of every target column, where there is at most one each.

        So permutations and the mean are gathered instead of multiplied; None for dense maps.
        """
        if np.count_nonzero(self.matrix, axis=0).max(initial=0) > 1:
            return None
        column = np.abs(self.matrix).argmax(axis=0)
        return column, self.matrix[column, np.arange(self.target_dim)]

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Check that rows of this shape can be mapped.

        Raises:
            InputError: They are not a matrix, or have another width.
        """
        if len(shape) != 2:
            raise InputError(
                f"the rows have the shape {tuple(shape)}; this {self.kind} map takes a matrix of "
                f"{self.source_dim} columns"
            )
        if shape[1] != self.source_dim:
            raise InputError(
                f"the rows have {shape[1]} columns; this {self.kind} map takes {self.source_dim}"
            )

    @overload
    def apply(self, values: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]: ...
    @overload
    def apply(self, values: "torch.Tensor") -> "torch.Tensor": ...
    @overload
    def apply(self, values: "pandas.DataFrame") -> "pandas.DataFrame": ...
    def apply(self, values: Any) -> Any:
        """Return the predicted target rows as the rows are given: array, tensor or frame.

        Floating types are kept, whole numbers become float64; a tensor stays on its device and
        its gradients pass; a frame keeps its index, and its columns are numbered.

        Raises:
            InputError: The rows are not a matrix of numbers, or have another width.

        Example:
            >>> import numpy as np, pandas as pd
            >>> swap = AffineMap("permutation", np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2))
            >>> swap.apply(np.array([[1, 2]], dtype=np.float32))
            array([[2., 1.]], dtype=float32)
            >>> swap.apply(pd.DataFrame({"x": [1.0], "y": [2.0]}, index=["first"]))
                     0    1
            first  2.0  1.0
        """
        if not isinstance(values, np.ndarray):
            return mapped(values, self)
        self.check_shape(values.shape)
        if values.dtype.kind not in "fiub":
            raise InputError(f"the rows have the type {values.dtype}; expected real numbers")
        rows = values.astype(np.float64, copy=False)
        if self.entries is None:
            predicted = rows @ self.matrix
        else:
            column, factor = self.entries
            predicted = np.take(rows, column, axis=1)
            predicted *= factor
        predicted += self.shift
        dtype = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
        return predicted.astype(dtype, copy=False)

    def inverse(self) -> "AffineMap":
        """Return the map back, so that ``m.inverse().apply(m.apply(x))`` is x.

        A map into a wider space has a left inverse: the pseudo-inverse.

        Raises:
            InputError: The map loses directions, so that nothing can bring them back.
        """
        rank = int(np.linalg.matrix_rank(self.matrix))
        if rank < self.source_dim:
            raise InputError(
                f"this {self.kind} map has no inverse: it keeps {rank} of {self.source_dim} "
                "directions; fit the opposite direction instead"
            )
        back = (
            np.linalg.inv(self.matrix)
            if self.source_dim == self.target_dim
            else np.linalg.pinv(self.matrix)
        )
        return AffineMap(kind=self.kind, matrix=back, shift=-self.shift @ back)


def centred_map(
    kind: str,
    matrix: Float[np.ndarray, "p q"],
    mean_x: Float[np.ndarray, " p"],
    mean_y: Float[np.ndarray, " q"],
) -> AffineMap:
    """Return the map x ↦ (x − mean_x)·matrix + mean_y."""
    return AffineMap(kind=kind, matrix=matrix, shift=mean_y - mean_x @ matrix)


@dataclass(frozen=True, eq=False)
class MappedRows:
    """Rows seen through a map, computed when they are read.

    Attributes:
        rows: The rows before the map.
        through: The map that is applied to them.
    """

    rows: Rows
    through: AffineMap

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and width after the map."""
        return self.rows.shape[0], self.through.target_dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type of the rows, which the map keeps."""
        return self.rows.dtype

    def read(self, start: int, stop: int) -> Float[np.ndarray, "rows columns"]:
        """Return mapped rows ``start`` to ``stop`` (exclusive)."""
        return self.through.apply(self.rows.read(start, stop))

    def take(self, rows: Integer[np.ndarray, " rows"]) -> Float[np.ndarray, "rows columns"]:
        """Return the given rows, mapped."""
        return self.through.apply(self.rows.take(rows))


def mapped(values: Any, through: "AffineMap") -> Any:
    """Return mapped rows as they were given: tensor, frame, or an array of anything else.

    Raises:
        InputError: They are not a matrix of numbers, or of another width.
    """
    if is_a(values, "torch", "Tensor"):
        return _mapped_tensor(values, through)
    if is_a(values, "pandas", "DataFrame"):
        return _mapped_frame(values, through)
    try:
        return through.apply(np.asarray(values))
    except ValueError as failure:
        if isinstance(failure, InputError):
            raise
        raise InputError(
            f"rows: got {type(values).__name__}, not a matrix of numbers; expected an array, "
            "a tensor or a frame"
        ) from failure


def _mapped_tensor(tensor: "torch.Tensor", through: "AffineMap") -> "torch.Tensor":
    """Compute in double precision where the tensor is; gradients pass."""
    import torch

    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_complex():
        raise InputError(
            f"rows: got a tensor of {tensor.dtype} and {tensor.layout}; expected a dense one of "
            "real numbers"
        )
    through.check_shape(tuple(tensor.shape))
    # Metal has no double precision
    home = torch.device("cpu") if tensor.device.type == "mps" else tensor.device
    rows = tensor.to(device=home, dtype=torch.float64)
    if through.entries is None:
        predicted = rows @ torch.from_numpy(through.matrix).to(home, torch.float64)
    else:
        column, factor = (torch.from_numpy(entry).to(home) for entry in through.entries)
        predicted = rows[:, column] * factor
    predicted = predicted + torch.from_numpy(through.shift).to(home, torch.float64)
    dtype = tensor.dtype if tensor.is_floating_point() else torch.float64
    return predicted.to(device=tensor.device, dtype=dtype)


def _mapped_frame(frame: "pandas.DataFrame", through: "AffineMap") -> "pandas.DataFrame":
    """Keep the index; the columns are those of another space, and numbered."""
    import pandas

    bad = [
        str(name)
        for name, dtype in zip(frame.columns, frame.dtypes, strict=True)
        if getattr(dtype, "kind", "O") not in "fiub"
    ]
    if bad:
        raise InputError(f"rows: the column {bad[0]!r} holds no numbers; leave it out")
    values = frame.to_numpy()
    if values.dtype.kind == "O":  # numbers of which some may be missing
        values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return pandas.DataFrame(through.apply(values), index=frame.index)
