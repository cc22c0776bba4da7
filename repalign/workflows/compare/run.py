"""Compare representations of the same inputs: the error table that can be trusted."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from repalign.aliases import IntArray
from repalign.core.compute import choose_device
from repalign.exceptions import InputError
from repalign.store.joining.join import join_sources
from repalign.store.sources.in_memory import Embeddings, as_source
from repalign.workflows.compare.aligned import AlignedPair, align
from repalign.workflows.compare.plan import compare_all
from repalign.workflows.compare.results import CompareResult
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.executor import Executor, InProcess
from repalign.workflows.machine import Machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from repalign.store.sources.source import EmbeddingSource

VERSIONED = ("repalign", "numpy", "scipy", "scikit-learn", "torch", "h5py")


def compare(
    *embeddings: Embeddings,
    against: "Embeddings | None" = None,
    ids: Sequence[str] | None = None,
    groups: Iterable[Any] | None = None,
    settings: CompareSettings | None = None,
    machine: Machine | None = None,
    executor: Executor | None = None,
) -> CompareResult:
    """Compare two or more representations of the same inputs, every pair of them.

    Args:
        embeddings: Paths (``file`` or ``file::view``), arrays, tensors, frames or open sources.
        against: Compare each of them with this one instead of all pairs.
        ids: One id a row, for inputs that carry none.
        groups: One group a row of the first input (documents, plates): rows of one group are
            split together and drawn together. By default rows of one sample are a group.
        settings: Conventions; ``CompareSettings()`` by default.
        machine: Device, memory cap and progress callback.
        executor: Who computes: this process by default, or a ``ProcessPool``.

    Returns:
        The errors of every map and split, with intervals, nulls, warnings and provenance.

    Raises:
        InputError: Fewer than two inputs, or an input that cannot be used.
        RowMismatchError: The inputs do not hold the same rows.

    Example:
        >>> import numpy as np, repalign
        >>> x = np.random.default_rng(0).laplace(size=(500, 4))
        >>> result = repalign.compare(x, 2 * x[:, ::-1] + 1)
        >>> errors = result.to_frame().set_index(["map", "split"]).error
        >>> bool(errors["rigid", "held-out"] < 1e-6)
        True
    """
    settings = settings or CompareSettings()
    machine = machine or Machine(device=choose_device("auto"))
    sources = _sources(embeddings, ids)
    if against is None:
        chosen = list(combinations(sources, 2))
    else:
        fixed = as_source(against, ids=ids, name="against")
        chosen = [(fixed, source) for source in sources]
    if not chosen:
        raise InputError(f"compare: got {len(sources)} set of embeddings, expected at least two")
    labels = None if groups is None else np.asarray(list(groups))
    pairs = [_align(pair, settings, labels) for pair in chosen]
    results = compare_all(pairs, settings, executor or InProcess(), machine)
    return CompareResult(
        records=tuple(record for result in results for record in result.records),
        pairs=tuple(result.report for result in results),
        settings=asdict(settings)
        | {"device": machine.device, "memory_bytes": machine.memory_bytes},
        versions={name: version(name) for name in VERSIONED},
        maps=tuple(result.maps for result in results),
        measures=tuple(record for result in results for record in result.measures),
    )


def _align(
    pair: tuple["EmbeddingSource", "EmbeddingSource"],
    settings: CompareSettings,
    labels: "NDArray[Any] | None",
) -> AlignedPair:
    join = join_sources(pair, policy=settings.on_mismatch)
    if labels is None:
        return align(join, settings)
    return align(join, settings, _members(labels, pair[0], join.report.is_complete))


def _sources(
    embeddings: Sequence[Embeddings], ids: Sequence[str] | None
) -> list["EmbeddingSource"]:
    """Open everything; arrays are named by their place, equal names get their number."""
    sources = [
        as_source(item, ids=ids, name=f"array {number}")
        for number, item in enumerate(embeddings, start=1)
    ]
    labels = [(source.name, source.view) for source in sources]
    return [
        replace(source, name=f"{source.name} ({number})") if labels.count(label) > 1 else source
        for number, (source, label) in enumerate(zip(sources, labels, strict=True), start=1)
    ]


def _members(labels: "NDArray[Any]", source: "EmbeddingSource", is_complete: bool) -> IntArray:
    """Number the groups of the rows of the first source."""
    if labels.shape != (source.n_rows,):
        raise InputError(
            f"groups: got {labels.size} for the {source.n_rows} rows of {source.name}; expected "
            "one a row"
        )
    if not is_complete:
        raise InputError(
            "groups by row need sources with the same rows; the rows differ: leave groups out"
        )
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
