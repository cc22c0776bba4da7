"""Embedding stores: the only package that touches HDF5 and foreign embedding files."""

from repalign.store.reading.store import Store, open_store
from repalign.store.reading.verify import verify_store
from repalign.store.writing.arrays import write_store
from repalign.store.writing.options import WriteOptions
from repalign.store.writing.packing import pack_store
from repalign.store.writing.writer import StoreWriter

__all__ = [
    "Store",
    "StoreWriter",
    "WriteOptions",
    "open_store",
    "pack_store",
    "verify_store",
    "write_store",
]
