"""repalign: audit the alignment of learned representations.

Everything public is importable from here and loads on first use, so that ``import repalign``
stays fast and needs no heavy library.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from repalign.exceptions import (
    ConvergenceError,
    GateError,
    InputError,
    MissingExtraError,
    ModelError,
    RepalignError,
    RowMismatchError,
    StoreError,
)

if TYPE_CHECKING:
    from repalign.store import open_store, write_store

__version__ = version("repalign")

__all__ = [
    "ConvergenceError",
    "GateError",
    "InputError",
    "MissingExtraError",
    "ModelError",
    "RepalignError",
    "RowMismatchError",
    "StoreError",
    "__version__",
    "open_store",
    "write_store",
]

_LAZY = {
    "open_store": "repalign.store",
    "write_store": "repalign.store",
}


def __getattr__(name: str) -> Any:
    """Import a public name from the module that owns it, on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'repalign' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
