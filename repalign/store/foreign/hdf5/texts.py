"""Texts in HDF5 files: ids and the names that AnnData keeps in attributes."""

from pathlib import Path
from typing import Any

from repalign.exceptions import InputError
from repalign.expansion import TEXT_BYTES, check_identities
from repalign.store.foreign.contents import texts_of
from repalign.store.foreign.hdf5.objects import check_dataset, read_values
from repalign.store.foreign.separate_process import TIME_LIMIT, run_apart
from repalign.store.format.hdf5 import h5py, reading_hdf5

PROGRAM = Path(__file__).with_name("text_process.py")
PROCESS_BYTES = 2**30  # that Python and h5py map, and what little a damaged heap may ask for
MAX_MEMORY_BYTES = 2**33
COPIES = 32  # of the file: a text is a Python object, and JSON, beside what HDF5 makes of it
BYTES_A_SECOND = 2**23  # of texts that are read at the least


def read_texts(dataset: Any, *, path: Path, time_limit: float | None = None) -> list[str]:
    """Return a dataset of ids as text.

    Raises:
        InputError: not one dimension of text or integers, or damaged.
    """
    label = f"{path}::{dataset.name.removeprefix('/')}"
    text = h5py.check_string_dtype(dataset.dtype)
    if dataset.ndim != 1 or (text is None and dataset.dtype.kind not in "iu"):
        raise InputError(
            f"{label}: ids are {dataset.dtype} of shape {dataset.shape}; expected one text or "
            "integer per row"
        )
    check_dataset(dataset, label)
    check_identities(
        int(dataset.size) * (TEXT_BYTES + dataset.dtype.itemsize),
        label=label,
        stored=path.stat().st_size,
    )
    if text is not None and text.length is None:
        found = _read_apart(path, dataset.name, "", label=label, time_limit=time_limit)
        return texts_of(found, label=label)
    return texts_of(read_values(dataset, (), label), label=label)


def text_attribute(group: Any, name: str, *, path: Path) -> str | None:
    """Return a text that is an attribute of a group, or None if there is none."""
    label = f"{path}::{group.name.removeprefix('/')}@{name}"
    with reading_hdf5(label):
        if not h5py.h5a.exists(group.id, name.encode()):
            return None
        attribute = h5py.h5a.open(group.id, name.encode())
        kind, shape = attribute.get_type().get_class(), attribute.shape
    if kind != h5py.h5t.STRING:
        return None
    texts = _read_apart(path, group.name, name, label=label, time_limit=None)
    if len(texts) != 1:
        raise InputError(f"{label}: holds texts of shape {shape}; expected one text")
    return str(texts[0])


def _read_apart(
    path: Path, name: str, attribute: str, *, label: str, time_limit: float | None
) -> list[Any]:
    """Read texts in a process that ends after a time, whatever the file does to HDF5."""
    size = path.stat().st_size
    texts: list[Any] = run_apart(
        PROGRAM,
        [str(path), name, attribute],
        label=label,
        library="HDF5",
        memory_bytes=min(PROCESS_BYTES + COPIES * size, MAX_MEMORY_BYTES),
        time_limit=TIME_LIMIT + size / BYTES_A_SECOND if time_limit is None else time_limit,
    )
    return texts
