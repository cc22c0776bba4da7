"""HDF5 files that other programs wrote."""
