"""The data of an extraction; the store reads HDF5 files of images."""

from pathlib import Path

from repalign.data.image_arrays import ArrayImages
from repalign.data.open_data import open_data
from repalign.data.read_options import ReadOptions
from repalign.data.samples import Kind, Source
from repalign.files import file_sha256
from repalign.store.foreign.hdf5_files import Hdf5Images

HDF5_ENDINGS = (".h5", ".hdf5")


def open_source(name: str, kind: Kind, options: ReadOptions) -> Source:
    """Open data for a model of the given kind.

    Raises InputError when there is nothing of that kind.
    """
    path = Path(name).expanduser()
    if kind != "image" or path.suffix.lower() not in HDF5_ENDINGS or not path.is_file():
        return open_data(name, kind, options)
    images = Hdf5Images(path, options.column)
    description: dict[str, object] = {
        "format": "hdf5",
        "name": path.name,
        "sha256": file_sha256(path),
        "column": images.name,
    }
    return ArrayImages(images, description)
