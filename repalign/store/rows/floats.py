"""Rows of foreign numbers as native floats; rows that are not finite are refused by name."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray, IntArray, Rows
from repalign.exceptions import InputError, reading

EXACT_INTEGER = 2**53  # largest range in which every integer is a float64

Decode = Callable[[NDArray[Any]], FloatArray]


class FloatRows:
    """Foreign rows as ``Rows``: native floats, every value finite.

    Floats keep their precision, integers of up to 16 bits and booleans become float32, longer
    integers float64, bfloat16 becomes float32: none of these changes a value.

    Args:
        raw: the rows as they are kept in the file.
        label: name of file and array, for messages.
        bfloat16: the 16-bit words of ``raw`` are bfloat16 values.

    Raises:
        InputError: the type of ``raw`` is not a type of numbers that repalign reads.
    """

    def __init__(self, raw: Rows, *, label: str, bfloat16: bool = False) -> None:
        self._raw = raw
        self._label = label
        self.shape = raw.shape
        self.dtype = np.dtype(np.float32) if bfloat16 else float_type(raw.dtype, label=label)
        self._decode: Decode = _widen_bfloat16 if bfloat16 else self._convert

    def read(self, start: int, stop: int) -> FloatArray:
        """Return rows ``start`` to ``stop`` (exclusive) as a new array.

        Raises:
            InputError: a value is NaN or infinite, or an integer that no float64 can hold.
        """
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        with reading(self._label):
            values = self._decode(self._raw.read(start, stop))
        self._check_finite(values, lambda row: start + row)
        return values

    def take(self, rows: IntArray) -> FloatArray:
        """Return the given rows; they are strictly increasing.

        Raises:
            InputError: as for ``read``.
        """
        with reading(self._label):
            values = self._decode(self._raw.take(rows))
        self._check_finite(values, lambda row: int(rows[row]))
        return values

    def _convert(self, values: NDArray[Any]) -> FloatArray:
        if values.dtype.kind in "iu" and values.dtype.itemsize == 8 and values.size:
            largest = max(abs(int(values.min())), abs(int(values.max())))
            if largest > EXACT_INTEGER:
                raise InputError(
                    f"{self._label}: holds the integer {largest}, which no float64 represents; "
                    "convert the array to floats yourself"
                )
        return values.astype(self.dtype, copy=False)

    def _check_finite(self, values: FloatArray, row_of: Callable[[int], int]) -> None:
        if is_all_finite(values):
            return
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(bad):
            row, column = int(bad[0]), int(np.flatnonzero(~np.isfinite(values[bad[0]]))[0])
            raise InputError(
                f"{self._label}: row {row_of(row)} holds {values[row, column]} in column {column} "
                f"(rows like that in this block: {len(bad)}); remove or repair them"
            )


def float_type(dtype: np.dtype[Any], *, label: str) -> np.dtype[Any]:
    """Return the native float type that holds every value of ``dtype``.

    Raises:
        InputError: text, Python objects, complex numbers, records, dates or extended floats.
    """
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return dtype.newbyteorder("=")
    if dtype.kind in "iub":
        return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)
    if dtype.kind == "O":
        raise InputError(
            f"{label}: holds Python objects, which are never loaded because they can run code; "
            "save it as an array of floats"
        )
    raise InputError(
        f"{label}: has values of type {dtype}; expected real numbers (float16 to float64, "
        "integers, booleans)"
    )


def unmasked(values: Any, *, label: str) -> Any:
    """Return values as an array; a mask of numpy would be lost, and hidden values used.

    Raises:
        InputError: a value is masked.
    """
    if isinstance(values, list | tuple) and any(isinstance(v, np.ma.MaskedArray) for v in values):
        values = np.ma.array(values)
    array = np.asarray(values)
    if isinstance(values, np.ma.MaskedArray):
        hidden = np.argwhere(np.ma.getmaskarray(values))
        if len(hidden):
            raise InputError(
                f"{label}: row {hidden[0][0] if array.ndim else 0} has a masked value "
                f"({len(hidden)} in all); fill them or leave such rows out"
            )
    return array


def is_all_finite(values: NDArray[Any]) -> bool:
    """Return whether all values are finite, at memory speed in the usual case."""
    if values.dtype.itemsize >= 4:
        flat = values.reshape(-1)
        with np.errstate(all="ignore"):
            # NaN and infinity survive a sum of squares; so does an overflow, which is looked at
            if np.isfinite(np.dot(flat, flat)):
                return True
    return bool(np.isfinite(values).all())


def _widen_bfloat16(words: NDArray[Any]) -> FloatArray:
    """Return bfloat16 words as float32: the upper half of the same bits."""
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)
