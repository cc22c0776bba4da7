"""Embedding stores: the only package that touches HDF5 and foreign embedding files."""

from repalign.store.packing import pack_store
from repalign.store.reader import Store, open_store
from repalign.store.verification import verify_store
from repalign.store.write_options import WriteOptions
from repalign.store.write_store import write_store
from repalign.store.writer import StoreWriter

__all__ = [
    "Store",
    "StoreWriter",
    "WriteOptions",
    "open_store",
    "pack_store",
    "verify_store",
    "write_store",
]
