"""Embedding stores: the only package that touches HDF5 and foreign embedding files."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repalign.store.format import WriteOptions
    from repalign.store.reader import Store, open_store, verify_store
    from repalign.store.shard_files import pack_store
    from repalign.store.writer import StoreWriter, write_store

__all__ = [
    "Store",
    "StoreWriter",
    "WriteOptions",
    "open_store",
    "pack_store",
    "verify_store",
    "write_store",
]

# On first use: the command line reads the list of formats and loads no HDF5 for it.
_LAZY = {
    "Store": "reader",
    "StoreWriter": "writer",
    "WriteOptions": "format",
    "open_store": "reader",
    "pack_store": "shard_files",
    "verify_store": "reader",
    "write_store": "writer",
}


def __getattr__(name: str) -> Any:
    """Import a public name from the module that owns it, on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'repalign.store' has no attribute {name!r}")
    return getattr(import_module(f"repalign.store.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
