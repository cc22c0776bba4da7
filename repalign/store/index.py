"""Identity of rows: sample, token position, hash of the input and identifier."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from repalign.aliases import IntArray
from repalign.exceptions import InputError

POOLED = -1  # token position of a row that stands for its whole sample
SHA_BYTES = 16  # the hash of an input is cut to its first 16 bytes
MAX_ID_BYTES = 1024


@dataclass(frozen=True, eq=False)
class RowIndex:
    """Identity of ``n`` consecutive rows; arrays are read-only and of one length.

    A row is identified by ``(id, token)``, or by ``(sample, token)`` where there are no ids.
    Rows of one identity with different hashes were made from different inputs.

    Args:
        sample: ``(n,)`` int64, ordinal of the input in its dataset, from 0.
        token: ``(n,)`` int32, token position in the sample; -1 where the sample was pooled.
        sample_sha: ``(n, 16)`` uint8, first bytes of the sha256 of the raw input, or None.
        ids: ``(n,)`` bytes (UTF-8), identifiers of the samples, or None.

    Raises:
        InputError: lengths, types or values that no row can have.
    """

    sample: NDArray[np.int64]
    token: NDArray[np.int32]
    sample_sha: NDArray[np.uint8] | None = None
    ids: NDArray[np.bytes_] | None = None

    def __post_init__(self) -> None:
        sample = _integers("sample", self.sample, np.dtype(np.int64), lowest=0)
        token = _integers("token", self.token, np.dtype(np.int32), lowest=POOLED)
        columns: dict[str, NDArray[Any]] = {"sample": sample, "token": token}
        if self.sample_sha is not None:
            hashes = np.asarray(self.sample_sha)
            if hashes.dtype != np.uint8 or hashes.ndim != 2 or hashes.shape[1] != SHA_BYTES:
                raise InputError(
                    f"row index: sample_sha is {hashes.dtype} of shape {hashes.shape}; "
                    f"give uint8 of shape (rows, {SHA_BYTES})"
                )
            columns["sample_sha"] = hashes
        if self.ids is not None:
            columns["ids"] = _identifiers(self.ids)
        for name, values in columns.items():
            if len(values) != len(sample):
                raise InputError(
                    f"row index: {name} has {len(values)} rows, sample has {len(sample)}; "
                    "give every column one value per row"
                )
            frozen = values.view()
            frozen.setflags(write=False)
            object.__setattr__(self, name, frozen)

    def __len__(self) -> int:
        return len(self.sample)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns that are present, by name."""
        columns: dict[str, NDArray[Any] | None] = {
            "sample": self.sample,
            "token": self.token,
            "sample_sha": self.sample_sha,
            "ids": self.ids,
        }
        return {name: values for name, values in columns.items() if values is not None}

    def slice(self, start: int, stop: int) -> "RowIndex":
        """Return the index of rows ``start`` to ``stop`` (exclusive)."""
        return RowIndex(**{name: values[start:stop] for name, values in self.columns.items()})

    def take(self, rows: IntArray) -> "RowIndex":
        """Return the index of the given rows, in the given order."""
        return RowIndex(**{name: values[rows] for name, values in self.columns.items()})

    def key_hashes(self) -> NDArray[np.uint64]:
        """Return one number for the identity of every row.

        The hash of the input enters for rows without ids, whose sample numbers are only places.
        """
        numbers = self.sample.tolist()
        names = [str(number).encode() for number in numbers] if self.ids is None else self.ids
        inputs = self.sample_sha if self.ids is None and self.sample_sha is not None else None
        hashes = np.empty(len(self), dtype=np.uint64)
        for row, (name, token) in enumerate(zip(names, self.token.tolist(), strict=True)):
            content = b"" if inputs is None else inputs[row].tobytes()
            hashes[row] = xxh3_64_intdigest(b"%b\0%d\0%b" % (name, token, content))
        return hashes

    def name_of(self, row: int) -> str:
        """Return id or sample number of a row, and its token if it has one."""
        name = str(int(self.sample[row])) if self.ids is None else decode_ids(self.ids[[row]])[0]
        token = int(self.token[row])
        return name if token == POOLED else f"{name}, token {token}"

    def is_same_rows(self, other: "RowIndex") -> bool:
        """Return whether both have the same keys in the same order and no hash disagrees."""
        if (self.ids is None) != (other.ids is None):
            return False
        names = ["sample" if self.ids is None else "ids", "token"]
        if self.sample_sha is not None and other.sample_sha is not None:
            names.append("sample_sha")
        return all(np.array_equal(self.columns[name], other.columns[name]) for name in names)


def pooled_index(n_rows: int, *, start: int = 0, ids: Sequence[str] | None = None) -> RowIndex:
    """Return the index of one pooled row per sample, samples numbered from ``start``."""
    return RowIndex(
        sample=np.arange(start, start + n_rows, dtype=np.int64),
        token=np.full(n_rows, POOLED, dtype=np.int32),
        ids=None if ids is None else encode_ids(ids),
    )


def concatenate_index(parts: Sequence[RowIndex]) -> RowIndex:
    """Join indexes one after the other; they must have the same columns.

    Raises:
        InputError: no parts, or parts with different columns.
    """
    if not parts:
        raise InputError("row index: nothing to concatenate; give at least one part")
    names = list(parts[0].columns)
    for part in parts[1:]:
        if list(part.columns) != names:
            raise InputError(
                f"row index: parts have the columns {', '.join(names)} and "
                f"{', '.join(part.columns)}; give all parts the same columns"
            )
    return RowIndex(
        **{name: np.concatenate([part.columns[name] for part in parts]) for name in names}
    )


def encode_ids(ids: Iterable[str]) -> NDArray[np.bytes_]:
    """Encode identifiers as UTF-8 bytes.

    Raises:
        InputError: an id that is empty, longer than 1024 bytes or holds a NUL.
    """
    try:
        encoded = [str(value).encode() for value in ids]
    except UnicodeEncodeError as error:
        raise InputError(
            f"row index: the id {error.object[:40]!r} has half a surrogate pair, which is not "
            "text; write it as UTF-8"
        ) from error
    for value in encoded:
        # numpy drops trailing NULs of byte strings, so that such ids would change silently
        if not value or len(value) > MAX_ID_BYTES or b"\0" in value:
            shown = value[:40].decode(errors="replace")
            raise InputError(
                f"row index: the id {shown!r} has {len(value)} bytes; an id has 1 to "
                f"{MAX_ID_BYTES} bytes and no NUL"
            )
    return np.array(encoded, dtype=np.bytes_) if encoded else np.empty(0, dtype="S1")


def decode_ids(ids: NDArray[np.bytes_]) -> list[str]:
    """Return identifiers as text; bytes that are not UTF-8 are shown as escapes."""
    return [value.decode(errors="backslashreplace") for value in ids.tolist()]


def _integers(name: str, values: Any, dtype: np.dtype[Any], *, lowest: int) -> NDArray[Any]:
    """Check a column of integers and return it in its type."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"row index: {name} is {array.dtype} with {array.ndim} dimensions; "
            f"give one dimension of integers"
        )
    if array.size and (array.min() < lowest or array.max() > np.iinfo(dtype).max):
        raise InputError(
            f"row index: {name} has values from {array.min()} to {array.max()}; "
            f"allowed are {lowest} to {np.iinfo(dtype).max}"
        )
    return array.astype(dtype, copy=False)


def _identifiers(values: Any) -> NDArray[np.bytes_]:
    """Check the column of identifiers; text is encoded."""
    array = np.asarray(values)
    if array.ndim == 1 and array.dtype.kind in "UO":
        return encode_ids(array.tolist())
    if array.ndim != 1 or array.dtype.kind != "S":
        raise InputError(
            f"row index: ids are {array.dtype} with {array.ndim} dimensions; "
            "give one dimension of text or bytes"
        )
    if array.dtype.itemsize > MAX_ID_BYTES:
        raise InputError(
            f"row index: ids are up to {array.dtype.itemsize} bytes long; "
            f"at most {MAX_ID_BYTES} are allowed"
        )
    if array.size and np.any(array == b""):
        raise InputError("row index: an id is empty; give every row an id, or none")
    letters = np.ascontiguousarray(array).view(np.uint8).reshape(len(array), array.dtype.itemsize)
    if np.any((letters[:, :-1] == 0) & (letters[:, 1:] != 0)):
        raise InputError("row index: an id holds a NUL byte; remove it")
    if np.any(letters >= 0x80):
        for value in array.tolist():
            try:
                value.decode()
            except UnicodeDecodeError as error:
                raise InputError(f"row index: the id {value[:40]!r} is not UTF-8") from error
    return array
