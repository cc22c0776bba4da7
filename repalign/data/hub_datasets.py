"""Data sets by name through Hugging Face's datasets library, when that is installed."""

import hashlib
from typing import Any

from repalign.data.images import decode_image
from repalign.data.samples import Kind, Sample, checked_label, text_sample
from repalign.data.sounds import decode_sound
from repalign.data.text_tables import check_columns
from repalign.exceptions import InputError, MissingExtraError, first_line


class HubDataset:
    """One column of a data set; ids from a column or row numbers, counted from 0."""

    def __init__(self, name: str, kind: Kind, column: str | None, id_column: str | None) -> None:
        self._kind = kind
        self._column = column or kind
        self._id_column = id_column
        self._name, self._split, self._rows = _load(name)
        check_columns(self._rows.column_names, self._column, id_column, self._name)
        if kind != "text":
            self._rows = _as_files(self._rows, self._column, kind)

    @property
    def description(self) -> dict[str, object]:
        """What the data are, as plain values."""
        return {
            "format": "datasets",
            "name": self._name,
            "split": self._split,
            "fingerprint": self._rows._fingerprint,
            "column": self._column,
            "id_column": self._id_column,
        }

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, index: int) -> Sample:
        """Return one sample."""
        row = self._rows[index]
        label, where = str(index), f"row {index} of {self._name}"
        if self._id_column is not None:
            label = checked_label(row[self._id_column], self._id_column, where)
        value = row[self._column]
        if self._kind == "text":
            if not isinstance(value, str):
                raise InputError(f"{where} has no text in {self._column!r}")
            return text_sample(label, value, where)
        raw = value.get("bytes") if isinstance(value, dict) else None
        if raw is None:
            raise InputError(f"{where} holds no {self._kind} bytes")
        decode = decode_image if self._kind == "image" else decode_sound
        return Sample(label, hashlib.sha256(raw).digest(), decode(raw, f"row {index}"))


def _as_files(rows: Any, column: str, kind: Kind) -> Any:
    """Leave images and sounds undecoded, so that the hash is of the raw input."""
    import datasets

    feature = datasets.Image if kind == "image" else datasets.Audio
    return rows.cast_column(column, feature(decode=False))


def _load(name: str) -> tuple[str, str, Any]:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError(
            "datasets", extra="datasets", purpose="reading data sets by name"
        ) from error
    path, _, split = name.partition("@")
    split = split or "train"
    try:
        rows = datasets.load_dataset(path, split=split)
    # KeyError and RuntimeError of a data set whose description is damaged or of another version
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise InputError(
            f"cannot load the data set {path}, split {split}: {first_line(error)}"
        ) from error
    return path.rstrip("/").rsplit("/", 1)[-1], split, rows
