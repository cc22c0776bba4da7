"""Compare representations of the same inputs: the error table that can be trusted."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Unpack

from repalign.aliases import IntArray
from repalign.arguments import checked
from repalign.core.compute import choose_device
from repalign.core.inference.splits import Split
from repalign.exceptions import InputError
from repalign.store.joining.index import RowIndex
from repalign.store.joining.join import KnownMatches, join_sources
from repalign.store.sources.in_memory import Embeddings
from repalign.workflows.compare.aligned import AlignedPair, align, make_split, row_groups
from repalign.workflows.compare.mapped import judge_unseen
from repalign.workflows.compare.plan import Plan, compare_all
from repalign.workflows.compare.results import CompareResult
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.engines.effort import Course, expected_seconds, sizes_of
from repalign.workflows.executor import Executor, InProcess
from repalign.workflows.keywords import COMPARE, CompareKeywords, settings_of
from repalign.workflows.machine import Machine, ignore_sizes
from repalign.workflows.row_labels import group_numbers
from repalign.workflows.study.choosing import Asked, Names, chosen_pairs
from repalign.workflows.study.matches import best_matches
from repalign.workflows.study.search import with_searches

if TYPE_CHECKING:
    from repalign.store.sources.source import EmbeddingSource

VERSIONED = ("repalign", "numpy", "scipy", "scikit-learn", "torch", "h5py")


@COMPARE.speaks_python
@checked
def compare(
    *embeddings: Embeddings,
    against: "Embeddings | None" = None,
    names: Names | None = None,
    settings: CompareSettings | None = None,
    machine: Machine | None = None,
    executor: Executor | None = None,
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
        executor: Who computes: this process by default, or a ``ProcessPool``.
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
    settings = settings_of(settings, keywords)
    machine = Machine(device=choose_device("auto")) if machine is None else machine
    chosen = chosen_pairs(Asked(embeddings, against, names, keywords.get("ids")), settings)
    sizes = sizes_of(chosen)
    machine.on_sizes(sizes)
    course = Course(machine.on_stage, expected_seconds(sizes, settings))
    machine = replace(machine, on_stage=course, on_sizes=ignore_sizes)
    pairs = aligned_pairs(chosen, settings, keywords.get("groups"))
    room = machine.memory_bytes // 2
    plan = Plan(pairs, settings, keeps_maps=_maps_bytes(pairs, settings) <= room)
    results = with_searches(
        compare_all(plan, InProcess() if executor is None else executor, machine)
    )
    return CompareResult(
        records=tuple(record for result in results for record in result.records),
        pairs=tuple(result.report for result in results),
        settings=asdict(settings)
        | {"device": machine.device, "memory_bytes": machine.memory_bytes},
        versions={name: version(name) for name in VERSIONED},
        maps=tuple(result.maps for result in results) if plan.keeps_maps else (),
        measures=tuple(record for result in results for record in result.measures),
        matches=best_matches(results),
        fitted_rows=_fitted_rows(pairs, settings) if plan.keeps_maps else (),
    )


def aligned_pairs(
    pairs: Sequence[tuple["EmbeddingSource", "EmbeddingSource"]],
    settings: CompareSettings,
    labels: Iterable[Any] | None = None,
) -> list[AlignedPair]:
    """Join and split the rows of every pair; views of the same stores are joined once.

    Raises:
        RowMismatchError: The inputs do not hold the same rows.
        InputError: The groups do not fit, or a pair cannot be split.
    """
    known = KnownMatches()
    grouped: dict[int, tuple[IntArray, Split]] = {}
    aligned = []
    for pair in pairs:
        join = join_sources(pair, policy=settings.on_mismatch, known=known)
        if labels is not None:
            groups = _members(labels, pair[0], join.report.is_complete)
            aligned.append(align(join, settings, (groups, make_split(groups, settings))))
            continue
        # known keeps the index, so that its identity stays its own
        if id(join.index) not in grouped:
            groups = row_groups(join.index)
            grouped[id(join.index)] = groups, make_split(groups, settings)
        aligned.append(align(join, settings, grouped[id(join.index)]))
    return [judge_unseen(pair) for pair in aligned]


def _fitted_rows(pairs: Sequence[AlignedPair], settings: CompareSettings) -> tuple[RowIndex, ...]:
    """Return which rows fitted the maps of every result."""
    indexes = []
    for pair in pairs:
        index = pair.index
        if settings.map_rows == "training" and pair.split.judged:
            index = index.take(pair.split.fitting_rows(pair.split.judged[0]))
        indexes += [index] * (2 if settings.both_directions else 1)
    return tuple(indexes)


def _maps_bytes(pairs: Sequence[AlignedPair], settings: CompareSettings) -> int:
    """Return how much memory the maps of all pairs take."""
    entries = sum(pair.dims[0] * pair.dims[1] for pair in pairs)
    return 8 * entries * len(settings.maps) * (2 if settings.both_directions else 1)


def _members(labels: Iterable[Any], source: "EmbeddingSource", is_complete: bool) -> IntArray:
    """Number the groups of the rows of the first source."""
    numbers = group_numbers(labels, source)
    if not is_complete:
        raise InputError(
            "groups by row need sources with the same rows; the rows differ: leave groups out"
        )
    return numbers
