"""Program that reads texts of variable length from an HDF5 file; run by ``texts``.

HDF5 loops for ever, or asks for gigabytes, on some damaged heaps of such texts. In a process of
its own that can be ended. It is run as a file, so that it needs h5py and nothing of this package.
"""

import json
import os
import resource
import sys

DAMAGED = 65  # exit code: HDF5 cannot read the file


def main() -> None:
    """Write the texts at ``path`` ``object`` [``attribute``] to stdout, as a JSON list."""
    memory_bytes, path, name, attribute = sys.argv[1:5]
    resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    os.environ["HDF5_PLUGIN_PRELOAD"] = "::"  # no filter of the file may load a library
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its threads would count against the memory
    import h5py

    try:
        with h5py.File(path, "r", locking=False) as file:
            member = file[name]
            if not attribute and not isinstance(member, h5py.Dataset):
                raise TypeError("not a dataset")  # a damaged name leads elsewhere
            found = member.attrs[attribute] if attribute else member.asstr()[()]
    # of damaged heaps, of texts in no encoding or without end, of types that numpy does not have
    except (KeyError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}")
        sys.exit(DAMAGED)
    texts = found.tolist() if hasattr(found, "tolist") else [found]
    sys.stdout.write(json.dumps([text if isinstance(text, str) else None for text in texts]))


if __name__ == "__main__":
    try:
        main()
    except MemoryError as failure:
        sys.stderr.write(repr(failure))
        sys.exit(DAMAGED)
