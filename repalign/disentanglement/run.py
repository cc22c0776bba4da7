"""Do latents recover known factors: every score in every condition, with null and interval."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Unpack

import numpy as np

from repalign.aliases import IntArray
from repalign.comparison.pairs import group_numbers
from repalign.conditions.columns import (
    Columns,
    align_columns,
    check_features,
    feature_notes,
    is_own_table,
    open_columns,
)
from repalign.conditions.keywords import DISENTANGLE, FactorKeywords
from repalign.core.factors.encoding import encode_factors
from repalign.data.factors import ColumnTable
from repalign.disentanglement.grouping import (
    Groups,
    RowGroups,
    draw_rows,
    open_groups,
    sample_groups,
    to_groups,
)
from repalign.disentanglement.results import DisentangleResult
from repalign.disentanglement.scoring import ScoredRows, score_source
from repalign.disentanglement.settings import FactorSettings
from repalign.engine.engine import Engine
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.printable import byte_size, listing
from repalign.store.open import Embeddings, as_source
from repalign.store.source import EmbeddingSource

# The latents themselves, those of a condition, and what scores hold of them: measured on 3,000 and
# 6,000 rows of 200 columns, with all groups of the default.
COPIES = 8


@DISENTANGLE.speaks_python
def disentangle(
    embeddings: "Embeddings | Sequence[EmbeddingSource]",
    factors: Columns,
    *,
    groups: Groups = None,
    settings: FactorSettings | None = None,
    machine: Machine | None = None,
    executor: Engine | None = None,
    **keywords: Unpack[FactorKeywords],
) -> DisentangleResult:
    """Score representations against the ground-truth factors of their rows.

    The options of the command line are keywords of the same names:
    ``disentangle(latents, factors, scores=["mcc"], conditions="raw,pca+ica", null=19, seed=1)``.

    Args:
        embeddings: one set (path, ``path::view``, array, …), or several open sources that are
            scored side by side.
        factors: a file, ``store.h5::view``, ``builtin:digits``, or a mapping from names to
            values. It may be that of the embeddings: factors that are named are not features.
        groups: which rows belong together (documents, plates, objects): a column of the
            factors' table, a file with a group a line, or a value for each row; by default rows
            of one sample. Shuffles and half-samples keep them together.
        settings: all conventions as one object, for programs; instead of keywords.
        machine: device, cap on working memory, and the callback of progress.
        executor: what computes: this process by default, or a ``ProcessPool``; with a cache a
            rerun computes what is missing only.
        keywords: options, as ``repalign disentangle --help`` explains them.

    Raises:
        InputError: nothing that can be scored, an unknown name or keyword, a value that is not
            allowed, or more rows than fit into the memory.
        RowMismatchError: rows without factors.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> shape, hue = rng.integers(0, 3, 600), rng.integers(0, 4, 600)
        >>> latents = np.column_stack([hue, shape]) + 0.05 * rng.normal(size=(600, 2))
        >>> result = disentangle(latents, {"shape": shape, "hue": hue}, scores=["infomec"])
        >>> frame = result.to_frame().set_index(["condition", "score"])
        >>> bool(frame.value["raw", "InfoM"] > 0.95)
        True
    """
    settings = DISENTANGLE.settings_of(settings, keywords)
    machine, engine = machine or Machine(), executor or Engine()
    sources = _sources(embeddings, named_columns(settings, groups))
    is_own = embeddings is factors
    table = open_columns(factors)
    chosen = [_scored_rows(source, table, settings, groups, is_own=is_own) for source in sources]
    for source, scored in zip(sources, chosen, strict=True):
        _check_memory(source, scored, machine)
    results = [
        score_source(source, scored, settings, engine, machine)
        for source, scored in zip(sources, chosen, strict=True)
    ]
    return DisentangleResult(
        records=tuple(record for result in results for record in result.records),
        settings=asdict(settings),
        warnings=tuple(dict.fromkeys(text for result in results for text in result.warnings)),
        matrices=tuple(matrix for result in results for matrix in result.matrices),
        transforms={key: m for result in results for key, m in result.transforms.items()},
    )


def _scored_rows(
    source: EmbeddingSource,
    table: ColumnTable,
    settings: FactorSettings,
    groups: Groups,
    *,
    is_own: bool,
) -> ScoredRows:
    """Return the rows of a source that are scored, with their factors and groups."""
    asked = open_groups(groups, table)
    column = asked if isinstance(asked, str) else None
    names = settings.factors or tuple(name for name in table.columns if name != column)
    wanted = names if column is None or column in names else (*names, column)
    is_own = is_own or is_own_table(source, table)
    both = sorted(set(names) & set(source.columns or ())) if is_own else ()
    if both:
        raise InputError(
            f"{source.name}: {listing(both)} would be both features and factors; say which "
            "columns are factors (--factor)"
        )
    aligned = align_columns(source, table, wanted, policy=settings.on_mismatch, is_own=is_own)
    rows = aligned.rows
    if is_own:
        targets = {name: aligned.columns[name] for name in names}
        check_features(source, source.rows.take(rows), targets)
    if column is not None:
        members = to_groups(aligned.columns[column])
    elif asked is not None:
        members = to_groups(group_numbers(asked, source)[rows])
    else:
        members = sample_groups(source, rows)
    drawn, notes = _drawn(members, settings)
    encoded = encode_factors(
        {name: aligned.columns[name][drawn] for name in names},
        kinds=settings.kinds,
        n_bins=settings.n_bins,
    )
    not_features = named_columns(settings, groups)
    features = feature_notes(source, table, not_features, is_own=is_own)
    notes = (*features, *aligned.notes, *notes)
    return ScoredRows(rows[drawn], encoded, members.take(drawn), notes)


def named_columns(settings: FactorSettings, groups: Groups = None) -> tuple[str, ...]:
    """Return the columns that options name, which are never features."""
    return (*settings.factors, *((groups,) if isinstance(groups, str) else ()))


def _drawn(groups: RowGroups, settings: FactorSettings) -> tuple[IntArray, tuple[str, ...]]:
    n_rows = groups.member.size
    if not settings.max_rows or n_rows <= settings.max_rows:
        return np.arange(n_rows), ()
    drawn = draw_rows(groups, settings.max_rows, settings.seed)
    note = f"{drawn.size} of {n_rows} rows were drawn and scored (--max-rows 0 for all)"
    return drawn, (note,)


def _check_memory(source: EmbeddingSource, scored: ScoredRows, machine: Machine) -> None:
    needed = COPIES * 8 * scored.rows.size * source.dim
    if needed > machine.memory_bytes:
        raise InputError(
            f"{source.name}: scoring {scored.rows.size} rows of {source.dim} columns takes "
            f"{byte_size(needed, up=True)}, more than the {byte_size(machine.memory_bytes)} "
            "allowed; draw fewer rows (--max-rows), or allow more (--memory)"
        )


def _sources(
    embeddings: "Embeddings | Sequence[EmbeddingSource]", not_features: Sequence[str]
) -> list[EmbeddingSource]:
    if isinstance(embeddings, list | tuple) and all(
        isinstance(one, EmbeddingSource) for one in embeddings
    ):
        if not embeddings:
            raise InputError("no embeddings were given; expected at least one set")
        return list(embeddings)
    return [as_source(embeddings, name="latents", leave_out=not_features)]
