"""The foreign formats: one list, which readers, help, documentation and contract tests follow."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from repalign.files import check_regular

if TYPE_CHECKING:
    from repalign.store.foreign.contents import ForeignMatrix, ForeignRequest

# Those that are written too.
ExportFormat = Literal["npy", "npz", "csv", "parquet", "safetensors"]
IN_PLACE = "in place"
COPIED = "through a temporary copy"
NAMED = "`ids`, `id` or `sample_id`"


@dataclass(frozen=True)
class ForeignFormat:
    """One format, or one layout of it.

    Args:
        heading: what it is called in tables.
        reader: module in this folder and function that open it; empty for a layout that the
            reader of the format before it knows.
        views: what the views of a file are.
        ids: where its ids are.
        access: how the values are read.
        suffixes: endings that tell it; none for a folder.
        marks: files in a folder that tell it.
    """

    heading: str
    reader: str
    views: str
    ids: str
    access: str
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
    ForeignFormat(
        "`.npy`",
        "numpy_files:read_npy",
        views="none",
        ids="none",
        access=IN_PLACE,
        suffixes=(".npy",),
    ),
    ForeignFormat(
        "`.npz`",
        "numpy_files:read_npz",
        views="names of the arrays",
        ids=f"array {NAMED}",
        access=COPIED,
        suffixes=(".npz",),
    ),
    ForeignFormat(
        "`.pt`, `.pth`",
        "tensors:read_torch",
        views="keys of the dict (`outer.inner`), numbers of the list",
        ids=f"list {NAMED}",
        access=f"`weights_only`; {IN_PLACE}",
        suffixes=(".pt", ".pth"),
    ),
    ForeignFormat(
        "`.pt` of platonic-rep (`feats` of rows × layers × columns)",
        "",
        views="`layer0`, `layer1`, …; `layer-1` is the last",
        ids="none",
        access=f"`weights_only`; {IN_PLACE}",
    ),
    ForeignFormat(
        "`.safetensors`",
        "tensors:read_safetensors",
        views="names of the tensors",
        ids="metadata `ids`, a JSON list",
        access=IN_PLACE,
        suffixes=(".safetensors",),
    ),
    ForeignFormat(
        "`.parquet` (extra `parquet`)",
        "tables:read_parquet",
        views="names of list columns; `columns` for the columns of single numbers",
        ids=f"column {NAMED}, the index of pandas, or the only column of text",
        access=COPIED,
        suffixes=(".parquet",),
    ),
    ForeignFormat(
        "`.csv`, `.tsv`, `.txt`",
        "delimited_text:read_delimited_text",
        views="none",
        ids=f"column {NAMED}; a first column without a name or with text",
        access=COPIED,
        suffixes=(".csv", ".tsv", ".txt"),
    ),
    ForeignFormat(
        "`.h5ad` (AnnData)",
        "anndata_files:read_h5ad",
        views="`X`, `obsm/…` (also without `obsm/`), `layers/…`, dense",
        ids="names of the observations",
        access=IN_PLACE,
        suffixes=(".h5ad",),
    ),
    ForeignFormat(
        "other `.h5`, `.hdf5`",
        "hdf5_files:read_hdf5",
        views="paths of the datasets",
        ids=f"dataset {NAMED}",
        access=IN_PLACE,
        suffixes=(".h5", ".hdf5"),
    ),
    ForeignFormat(
        "`.mat` (up to `-v7`)",
        "matlab_files:read_matlab",
        views="names of the variables",
        ids="if there is one variable per row: their names",
        access="by scipy, in memory",
        suffixes=(".mat",),
    ),
    ForeignFormat(
        "zarr directory, also of AnnData (extra `zarr`)",
        "zarr_trees:read_zarr",
        views="paths of the arrays; of AnnData as for `.h5ad`",
        ids=f"array {NAMED}; of AnnData the names of the observations",
        access=IN_PLACE,
        marks=(".zarray", ".zgroup", "zarr.json"),
    ),
    ForeignFormat(
        "directory of `Dataset.save_to_disk` (extra `parquet`)",
        "tables:read_saved_dataset",
        views="as for `.parquet`",
        ids="as for `.parquet`",
        access=COPIED,
        marks=("state.json", "dataset_dict.json"),
    ),
    ForeignFormat(
        "thingsvision directory: `features.*`, or one folder per module",
        "thingsvision:read_thingsvision",
        views="names of the modules",
        ids="`file_names.txt`",
        access="as the format inside",
    ),
)
BY_SUFFIX = {suffix: each for each in FORMATS for suffix in each.suffixes}
FOLDER = next(each for each in FORMATS if each.reader.startswith("thingsvision"))


def of_folder(path: Path) -> ForeignFormat:
    """Return the format of a directory."""
    told = (f for f in FORMATS if any((path / mark).is_file() for mark in f.marks))
    return next(told, FOLDER)


# One ending of each, for help.
SUFFIX_LIST = ", ".join(each.suffixes[0] for each in FORMATS if each.suffixes)
