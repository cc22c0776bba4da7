"""The foreign formats: one list, which readers, help and contract tests follow.

docs/embeddings.md says of each what its views are, where its ids are and how it is read.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from repalign.files import check_regular

if TYPE_CHECKING:
    from repalign.store.formats.contents import ForeignMatrix, ForeignRequest

# Those that are written too.
ExportFormat = Literal["npy", "npz", "csv", "parquet", "safetensors"]


@dataclass(frozen=True)
class ForeignFormat:
    """One format of files or of folders.

    Args:
        reader: module in this folder and function that open it.
        suffixes: endings of its files; none for a folder.
        marks: files in a folder that tell it.
    """

    reader: str
    suffixes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    def read(self, request: "ForeignRequest") -> "ForeignMatrix":
        """Open one matrix of a file, which is a regular one, or of a folder.

        Raises:
            InputError: a pipe or device, which may never answer, or a file that does not hold one.
        """
        if self.suffixes:
            check_regular(request.path)
        module, function = self.reader.split(":")
        read: Any = getattr(import_module(f"{__package__}.{module}"), function)
        matrix: ForeignMatrix = read(request)
        return matrix


FORMATS = (
    ForeignFormat("numpy_files:read_npy", suffixes=(".npy",)),
    ForeignFormat("numpy_files:read_npz", suffixes=(".npz",)),
    ForeignFormat("tensors:read_torch", suffixes=(".pt", ".pth")),
    ForeignFormat("tensors:read_safetensors", suffixes=(".safetensors",)),
    ForeignFormat("tables:read_parquet", suffixes=(".parquet",)),
    ForeignFormat("delimited_text:read_delimited_text", suffixes=(".csv", ".tsv", ".txt")),
    ForeignFormat("hdf5_files:read_h5ad", suffixes=(".h5ad",)),
    ForeignFormat("hdf5_files:read_hdf5", suffixes=(".h5", ".hdf5")),
    ForeignFormat("matlab_files:read_matlab", suffixes=(".mat",)),
    ForeignFormat("zarr_trees:read_zarr", marks=(".zarray", ".zgroup", "zarr.json")),
    ForeignFormat("tables:read_saved_dataset", marks=("state.json", "dataset_dict.json")),
)
FOLDER = ForeignFormat("thingsvision:read_thingsvision")
BY_SUFFIX = {suffix: entry for entry in FORMATS for suffix in entry.suffixes}
# One ending of each, for help.
SUFFIX_LIST = ", ".join(entry.suffixes[0] for entry in FORMATS if entry.suffixes)


def of_folder(path: Path) -> ForeignFormat:
    """Return the format of a directory."""
    marked = (entry for entry in FORMATS if any((path / mark).is_file() for mark in entry.marks))
    return next(marked, FOLDER)
