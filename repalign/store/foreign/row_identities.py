"""Columns of a foreign table that say which input a row is, as our own export writes them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError
from repalign.expansion import TEXT_BYTES, check_identities
from repalign.store.joining.index import SHA_BYTES


class RowIdentities:
    """Collects ids, token positions and hashes of a table that is read in blocks.

    Args:
        id_name: the column of ids, or None.
        label: name of the table, for messages.
    """

    NAMES: ClassVar[tuple[str, ...]] = ("token", "sample_sha")

    def __init__(self, *, id_name: str | None, label: str) -> None:
        self._id_name = id_name
        self._label = label
        self._columns: dict[str, list[str]] = {}
        self._n_bytes = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that identify a row, in a table that has them."""
        return self.NAMES if self._id_name is None else (self._id_name, *self.NAMES)

    def add(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Add the next rows: lists of text or integers by the name of the column."""
        for name, values in columns.items():
            kept = self._columns.setdefault(name, [])
            for value in values:
                if isinstance(value, bool) or not isinstance(value, str | int):
                    raise InputError(
                        f"{self._label}: row {len(kept)} has {value!r} in column {name!r}; "
                        "expected text or an integer"
                    )
                kept.append(str(value))
            self._n_bytes += sum(TEXT_BYTES + len(text) for text in kept[-len(values) :])
            check_identities(self._n_bytes, label=self._label)

    def ids(self) -> list[str] | None:
        """Return one id per row, or None."""
        if self._id_name is None:
            return None
        ids = self._columns.get(self._id_name, [])
        if "" in ids:
            raise InputError(
                f"{self._label}: row {ids.index('')} has no id; give every row one, or none"
            )
        return ids

    def token(self) -> NDArray[np.int32] | None:
        """Return the token position of each row, or None."""
        if "token" not in self._columns:
            return None
        try:
            return np.array([int(text) for text in self._columns["token"]], dtype=np.int32)
        except (ValueError, OverflowError) as error:
            raise InputError(
                f"{self._label}: the column 'token' holds {error}; expected token positions, "
                "-1 for a pooled row"
            ) from error

    def sample_sha(self) -> NDArray[np.uint8] | None:
        """Return the hash of each row's input, or None."""
        if "sample_sha" not in self._columns:
            return None
        texts = self._columns["sample_sha"]
        try:
            values = [bytes.fromhex(text) for text in texts]
        except ValueError as error:
            raise InputError(
                f"{self._label}: the column 'sample_sha' holds no hexadecimal hash ({error})"
            ) from error
        wrong = next((row for row, value in enumerate(values) if len(value) != SHA_BYTES), None)
        if wrong is not None:
            raise InputError(
                f"{self._label}: row {wrong} has a 'sample_sha' of {len(values[wrong])} bytes; "
                f"expected {SHA_BYTES}"
            )
        return np.frombuffer(b"".join(values), dtype=np.uint8).reshape(-1, SHA_BYTES)
