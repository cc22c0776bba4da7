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
    from repalign.comparison.results import CompareResult
    from repalign.comparison.run import compare
    from repalign.comparison.settings import CompareSettings
    from repalign.core.affine import AffineMap
    from repalign.core.estimators import AlignmentRegressor
    from repalign.core.ica.settings import IcaSettings
    from repalign.deconfounding.results import DeconfoundResult
    from repalign.deconfounding.run import deconfound
    from repalign.deconfounding.settings import BatchSettings
    from repalign.disentanglement.results import DisentangleResult
    from repalign.disentanglement.run import disentangle
    from repalign.disentanglement.settings import FactorSettings
    from repalign.engine.engine import ProcessPool
    from repalign.extraction.run import extract
    from repalign.extraction.settings import ExtractSettings
    from repalign.results.saved_maps import apply_map, read_map, save_result_maps
    from repalign.store import (
        Store,
        StoreWriter,
        WriteOptions,
        open_store,
        pack_store,
        verify_store,
        write_store,
    )
    from repalign.store.exchange import export_store, import_store
    from repalign.store.matching import join_sources
    from repalign.store.open import as_source, open_embeddings
    from repalign.store.source import EmbeddingSource


__version__ = version("repalign")

__all__ = [
    "AffineMap",
    "AlignmentRegressor",
    "BatchSettings",
    "CompareResult",
    "CompareSettings",
    "ConvergenceError",
    "DeconfoundResult",
    "DisentangleResult",
    "EmbeddingSource",
    "ExtractSettings",
    "FactorSettings",
    "GateError",
    "IcaSettings",
    "InputError",
    "MissingExtraError",
    "ModelError",
    "ProcessPool",
    "RepalignError",
    "RowMismatchError",
    "Store",
    "StoreError",
    "StoreWriter",
    "WriteOptions",
    "__version__",
    "apply_map",
    "as_source",
    "compare",
    "deconfound",
    "disentangle",
    "export_store",
    "extract",
    "import_store",
    "join_sources",
    "open_embeddings",
    "open_store",
    "pack_store",
    "read_map",
    "save_result_maps",
    "verify_store",
    "write_store",
]

_LAZY = {
    "AffineMap": "repalign.core.affine",
    "AlignmentRegressor": "repalign.core.estimators",
    "CompareResult": "repalign.comparison.results",
    "CompareSettings": "repalign.comparison.settings",
    "BatchSettings": "repalign.deconfounding.settings",
    "DeconfoundResult": "repalign.deconfounding.results",
    "FactorSettings": "repalign.disentanglement.settings",
    "DisentangleResult": "repalign.disentanglement.results",
    "EmbeddingSource": "repalign.store.source",
    "ExtractSettings": "repalign.extraction.settings",
    "IcaSettings": "repalign.core.ica.settings",
    "ProcessPool": "repalign.engine.engine",
    "Store": "repalign.store",
    "StoreWriter": "repalign.store",
    "WriteOptions": "repalign.store",
    "apply_map": "repalign.results.saved_maps",
    "as_source": "repalign.store.open",
    "compare": "repalign.comparison.run",
    "deconfound": "repalign.deconfounding.run",
    "disentangle": "repalign.disentanglement.run",
    "export_store": "repalign.store.exchange",
    "extract": "repalign.extraction.run",
    "import_store": "repalign.store.exchange",
    "join_sources": "repalign.store.matching",
    "open_embeddings": "repalign.store.open",
    "open_store": "repalign.store",
    "pack_store": "repalign.store",
    "read_map": "repalign.results.saved_maps",
    "save_result_maps": "repalign.results.saved_maps",
    "verify_store": "repalign.store",
    "write_store": "repalign.store",
}


def __getattr__(name: str) -> Any:
    """Import a public name from the module that owns it, on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'repalign' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
