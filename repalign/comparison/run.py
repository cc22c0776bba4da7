"""Compare representations of the same inputs: the error table that can be trusted."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from operator import attrgetter
from typing import Any, Unpack

from repalign.comparison.choose import Names, chosen_pairs
from repalign.comparison.draws import KnownBundles, plan_halves
from repalign.comparison.pair import PairTask, compare_pair
from repalign.comparison.pairs import Pair, align_all
from repalign.comparison.results import CompareResult
from repalign.comparison.search import best_matches, with_searches
from repalign.comparison.settings import COMPARE, CompareKeywords, CompareSettings, settings_of
from repalign.comparison.space import compute_spaces
from repalign.comparison.views import free_rows, in_tiles
from repalign.core.device import choose_device
from repalign.engine.engine import Engine
from repalign.engine.machine import Machine
from repalign.store.index import RowIndex
from repalign.store.open import Embeddings

VERSIONED = ("repalign", "numpy", "scipy", "scikit-learn", "torch", "h5py")


@COMPARE.speaks_python
def compare(
    *embeddings: Embeddings,
    against: "Embeddings | None" = None,
    names: Names | None = None,
    settings: CompareSettings | None = None,
    machine: Machine | None = None,
    executor: Engine | None = None,
    **keywords: Unpack[CompareKeywords],
) -> CompareResult:
    """Compare two or more representations of the same inputs, every pair of them.

    Views of one file or name are one model, and pairs are across models unless
    ``within=True``. The options of the command line are keywords of the same names:
    ``compare(x, y, maps=["rigid"], measures="svcca", split=0, seed=1)``; so are its presets,
    ``paper=True``, ``quick=True`` and ``audit=True``.

    Args:
        embeddings: Paths (``file``, ``file::view``, ``file::block-*``), arrays, tensors, frames
            or open sources; ``layers`` chooses views of files given bare.
        against: Compare each of them with this one instead of all pairs.
        names: What to call each of the embeddings, and ``against`` behind them where it is
            given; None for the name it has.
        settings: All options as one object, for programs; instead of keywords.
        machine: Device, memory cap and progress callback.
        executor: What computes: this process by default, or a ``ProcessPool``.
        keywords: Options, as ``repalign compare --help`` explains them, and ``ids``: one id a
            row, for inputs that carry none; ``groups``: one group a row of the first input
            (documents, plates): rows of one group are split together and drawn together; by
            default rows of one sample are a group.

    Returns:
        The errors of every map and split, with intervals, nulls, warnings and provenance.

    Raises:
        InputError: Fewer than two inputs, an input that cannot be used, a keyword that is none,
            or a value that is not allowed.
        RowMismatchError: The inputs do not hold the same rows.

    Example:
        >>> import numpy as np, repalign
        >>> x = np.random.default_rng(0).laplace(size=(500, 4))
        >>> result = repalign.compare(x, 2 * x[:, ::-1] + 1)
        >>> errors = result.to_frame().set_index(["map", "split"]).error
        >>> bool(errors["rigid", "held-out"] < 1e-6)
        True
        >>> quick = repalign.compare(x, x + 1, quick=True, maps=["rigid"], names=("A", "B"))
        >>> [(record.source, record.target, record.map) for record in quick.records]
        [('A', 'B', 'rigid')]
    """
    settings, engine = settings_of(settings, keywords), executor or Engine()
    machine = Machine(device=choose_device("auto")) if machine is None else machine
    chosen = chosen_pairs(
        embeddings, settings, against=against, names=names, ids=keywords.get("ids")
    )
    pairs = align_all(chosen, settings, keywords.get("groups"))
    keeps_maps = _maps_bytes(pairs, settings) <= machine.memory_bytes // 2
    bundles: KnownBundles = {}
    tasks = [
        PairTask(pair, settings, plan_halves(pair, settings, bundles), keeps_maps) for pair in pairs
    ]
    # a pair that the cache holds is not computed again, nor what only such pairs need
    results_of: dict[str, Any] = {task.key: engine.find(task.key, machine) for task in tasks}
    missing = [task for task in tasks if results_of[task.key] is None]
    missing = [missing[n] for n in in_tiles([task.pair.views for task in missing], machine)]
    try:
        spaces = compute_spaces(missing, settings, engine, machine)
        is_shared = engine.workers >= len(missing)  # few pairs: their shuffles are shared out
        mapping = Engine(engine.cache) if is_shared else engine
        with engine.threads() if is_shared else nullcontext():
            computed = mapping.map(
                "pairs",
                partial(compare_pair, engine=engine) if is_shared else compare_pair,
                missing,
                machine,
                key=attrgetter("key"),
                shared=lambda task: spaces[task.key],
            )
    finally:
        free_rows()
    results_of |= {task.key: result for task, result in zip(missing, computed, strict=True)}
    engine.n_computed += mapping.n_computed if is_shared else 0
    results = with_searches([result for task in tasks for result in results_of[task.key]])
    return CompareResult(
        records=tuple(record for result in results for record in result.records),
        pairs=tuple(result.report for result in results),
        settings=asdict(settings)
        | {"device": machine.device, "memory_bytes": machine.memory_bytes},
        versions={name: version(name) for name in VERSIONED},
        maps=tuple(result.maps for result in results) if keeps_maps else (),
        measures=tuple(record for result in results for record in result.measures),
        matches=best_matches(results),
        fitted_rows=_fitted_rows(pairs, settings) if keeps_maps else (),
    )


def _fitted_rows(pairs: Sequence[Pair], settings: CompareSettings) -> tuple[RowIndex, ...]:
    """Return which rows fitted the maps of every result."""
    indexes = []
    for pair in pairs:
        index = pair.index
        if settings.map_rows == "training" and pair.split.judged:
            index = index.take(pair.split.fitting_rows(pair.split.judged[0]))
        indexes += [index] * (2 if settings.both_directions else 1)
    return tuple(indexes)


def _maps_bytes(pairs: Sequence[Pair], settings: CompareSettings) -> int:
    """Return how much memory the maps of all pairs take."""
    entries = sum(pair.dims[0] * pair.dims[1] for pair in pairs)
    return 8 * entries * len(settings.maps) * (2 if settings.both_directions else 1)
