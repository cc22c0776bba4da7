"""Columns of a table for the rows of a set of embeddings, joined by identity."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import IntArray, MismatchPolicy
from repalign.arguments import is_a
from repalign.data.builtin_factors import BUILTIN_PREFIX, builtin_columns
from repalign.data.factors import (
    SUFFIXES,
    ColumnTable,
    has_ids,
    has_missing,
    read_columns,
    table_of,
)
from repalign.exceptions import InputError, RowMismatchError
from repalign.printable import listing
from repalign.store.formats.contents import METADATA_PREFIX
from repalign.store.formats.hdf5_files import read_observations
from repalign.store.in_memory import frame_ids
from repalign.store.index import POOLED, decode_ids, pooled_index
from repalign.store.matching import MatchKey, match_rows, unverified_ids
from repalign.store.open import open_embeddings
from repalign.store.source import EmbeddingSource, parse_locator

if TYPE_CHECKING:
    import pandas as pd

TABLES = (*SUFFIXES, ".h5ad")  # files that hold columns besides embeddings

Columns: TypeAlias = "str | Path | ColumnTable | Mapping[str, Any] | pd.DataFrame"


@dataclass(frozen=True, eq=False)
class RowColumns:
    """The rows of the embeddings that have values, ascending, and their values by column."""

    rows: IntArray
    columns: Mapping[str, NDArray[Any]]
    notes: tuple[str, ...]


def open_columns(columns: Columns, *, id_column: str | None = None) -> ColumnTable:
    """Return a table from a file, a mapping of arrays, a frame, a view of a store, or a table.

    The index of a frame gives the ids, unless it is a plain range or a column is called ``id``;
    ``store.h5::factors`` are the columns of that view, called ``factors.0``, ``factors.1``, …;
    ``builtin:digits`` are what is known of the built-in images; ``cells.h5ad`` is the table of
    its observations.
    """
    if isinstance(columns, ColumnTable):
        return columns
    if isinstance(columns, Mapping):
        return table_of(columns)
    if is_a(columns, "pandas", "DataFrame"):
        return _of_frame(columns)
    if str(columns).startswith(BUILTIN_PREFIX):
        return builtin_columns(str(columns))
    locator = parse_locator(columns)
    path = Path(locator.path)
    if path.suffix.lower() == ".h5ad" and locator.view in (None, "obs"):
        observations, ids = read_observations(path, id_column=id_column)
        return table_of(observations, ids=ids, name=str(path))
    if locator.view is None:
        return read_columns(path, id_column=id_column)
    source = open_embeddings(columns, id_column=id_column)
    values = source.rows.read(0, source.n_rows)
    titles = (f"{locator.view}.{j}" for j in range(source.dim))
    ids = None if source.index.ids is None else decode_ids(source.index.ids)
    return table_of(dict(zip(titles, values.T, strict=True)), ids=ids, name=str(columns))


def _of_frame(frame: "pd.DataFrame") -> ColumnTable:
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    ids = None if has_ids(columns) else frame_ids(frame, name="columns")
    return table_of(columns, ids=ids)


def align_columns(
    source: EmbeddingSource,
    table: ColumnTable,
    names: tuple[str, ...] | None = None,
    *,
    policy: MismatchPolicy = "refuse",
    is_own: bool = False,
) -> RowColumns:
    """Find the values of every row: by id, else by sample number, else by row order.

    A table that is the embeddings' own (``is_own``, or the same file) has the same rows. Rows
    with a missing value in one of the columns are left out, with a note.

    Raises:
        InputError: an unknown column.
        RowMismatchError: a row has no entry in the table and the policy is "refuse", nothing is
            in common, or without ids the numbers of rows differ.
    """
    chosen = {name: table.column(name) for name in (names or tuple(table.columns))}
    places, notes = _places(source, table, is_own=is_own or is_own_table(source, table))
    notes += _of_other_data(source, table)
    found = places >= 0
    if not found.all():
        lost = int((~found).sum())
        first = int(np.argmin(found))
        text = (
            f"{table.source}: has no entry for {lost} of the {source.n_rows} rows of "
            f"{source.name} (the first is {_name_of(source, first)})"
        )
        if policy == "refuse" or not found.any():
            raise RowMismatchError(f"{text}; add them, or go on with --on-mismatch intersect")
        notes.append(f"{text}; they were left out")
    values = {name: column[places[found]] for name, column in chosen.items()}
    rows = np.flatnonzero(found)
    missing = np.zeros(rows.size, dtype=np.bool_)
    for name, column in values.items():
        gaps = has_missing(column)
        if gaps.any():
            notes.append(f"{int(gaps.sum())} rows have no value of {name} and were left out")
        missing |= gaps
    if missing.all():
        raise RowMismatchError(
            f"{table.source}: no row has a value of each of {', '.join(chosen)}; choose others"
        )
    kept = {name: column[~missing] for name, column in values.items()}
    return RowColumns(rows[~missing], kept, (*table.notes, *notes))


def is_own_table(source: EmbeddingSource, table: ColumnTable) -> bool:
    """Tell whether a table was read from the file of the embeddings."""
    path = Path(table.source)
    return source.path is not None and path.is_file() and path.samefile(source.path)


def feature_notes(
    source: EmbeddingSource,
    table: ColumnTable,
    not_features: Collection[str],
    *,
    is_own: bool = False,
) -> list[str]:
    """Name the columns taken as features where labels lie in the same table.

    Args:
        source: the embeddings.
        table: the labels, batches or factors.
        not_features: columns that an option names; of any table they are never features.
        is_own: whether the table is the embeddings' own, as is one of the same file.
    """
    left_out = list(source.info.get("left_out", ()))
    is_own = is_own or is_own_table(source, table)
    if source.columns is None or not (is_own or set(not_features) & set(left_out)):
        return []
    others = f"; left out: {listing(left_out)}" if left_out else ""
    features = f"{len(source.columns)} columns are features: {listing(source.columns)}"
    return [f"{source.name}: {features}{others}"]


def check_features(
    source: EmbeddingSource,
    values: NDArray[Any],
    targets: Mapping[str, NDArray[Any]],
    batches: NDArray[Any] | None = None,
) -> None:
    """Check that no feature is a copy of a target, nor a finer code of it.

    A copy has the values of the target or one value for each of them, or marks one of them by one
    of two values. A finer code takes at most half as many values as there are rows, and each with
    one value of the target; it is allowed where its values differ from batch to batch, as those of
    few levels do that were normalised by batch, and without batches.

    Args:
        source: the embeddings, for names.
        values: their rows.
        targets: what is to be told from them, one value for each row.
        batches: the batch of each row, where finer codes are refused too.

    Raises:
        InputError: a feature does; the message names it.
    """
    codes = {
        name: np.unique(column, return_inverse=True)[1]
        for name, column in targets.items()
        if (column != column[0]).any()
    }
    batch = None if batches is None else np.unique(batches, return_inverse=True)[1]
    for place in range(values.shape[1]):
        column = values[:, place]
        distinct, member = np.unique(column, return_inverse=True)
        if distinct.size == 1:
            continue
        is_few = 2 * distinct.size <= len(column)
        is_finer = is_few and batch is not None and not _determines(member, batch)
        for name, code in codes.items():
            is_equal = targets[name].dtype.kind in "iuf" and np.array_equal(column, targets[name])
            is_copy = is_equal or (is_few and _is_copy(member, code))
            if is_copy or (is_finer and _determines(member, code)):
                feature = str(place) if source.columns is None else source.columns[place]
                raise InputError(
                    f"{source.name}: the feature {feature!r} determines {name!r}, which is to be "
                    "told from the features; remove it from the embeddings, or leave it out "
                    f"(leave_out, or a name that begins with {METADATA_PREFIX})"
                )


def _determines(member: IntArray, code: IntArray) -> bool:
    """Tell whether each class of a feature has one code."""
    code_of = np.empty(member.max() + 1, dtype=code.dtype)
    code_of[member] = code
    return bool((code_of[member] == code).all())


def _is_copy(member: IntArray, code: IntArray) -> bool:
    """Tell whether classes and codes are the same up to names, or one of two marks a code."""
    n_classes, n_codes = member.max() + 1, code.max() + 1
    if n_classes == n_codes:
        return _determines(member, code)
    sides = [code[member == side] for side in (0, 1)] if n_classes == 2 else []
    return any((s == s[0]).all() and s.size == (code == s[0]).sum() for s in sides)


def _of_other_data(source: EmbeddingSource, table: ColumnTable) -> list[str]:
    """Say so where factors of built-in data join rows of others: the ids of both are numbers."""
    dataset = (source.info.get("spec") or {}).get("dataset") or {}
    shown = dataset.get("name")
    if not table.source.startswith(BUILTIN_PREFIX) or shown is None:
        return []
    if dataset.get("format") == "builtin" and table.source == f"{BUILTIN_PREFIX}{shown}":
        return []
    return [
        f"{source.name} was extracted from {shown}, and {table.source} are factors of other data: "
        "the ids agree, which are numbers; unless the rows are the same, nothing here has a meaning"
    ]


def _places(
    source: EmbeddingSource, table: ColumnTable, *, is_own: bool
) -> tuple[IntArray, list[str]]:
    """Return for every row of the embeddings the row of the table, -1 where there is none."""
    key = "row order" if is_own else _match_key(source, table)
    if key == "row order":
        if source.n_rows != table.n_rows:
            raise RowMismatchError(
                f"{table.source} has {table.n_rows} rows and {source.name} {source.n_rows}, "
                "without ids on both sides; give ids to both, or the same rows in the same order"
            )
        note = f"{table.source} and {source.name} were matched by row order: no ids on both sides"
        return np.arange(source.n_rows), [] if is_own else [note]
    # All rows of a sample, such as the tokens of a text, take the entry of that sample.
    identity: NDArray[Any] | None = source.index.ids if key == "ids" else source.index.sample
    assert identity is not None, "rows are matched by ids only where there are ids"
    _, first, member = np.unique(identity, return_index=True, return_inverse=True)
    samples = replace(source.index.take(first), token=np.full(first.size, POOLED), sample_sha=None)
    match = match_rows([samples, pooled_index(table.n_rows, ids=table.ids)], key=key)
    places = np.full(first.size, -1, dtype=np.int64)
    places[match.positions[0]] = match.positions[1]
    notes: list[str] = []
    if key == "ids":
        notes += unverified_ids(source)
    if key == "sample numbers":
        notes.append(f"{table.source} was matched to the sample numbers of {source.name}")
    return places[member], notes


def _match_key(source: EmbeddingSource, table: ColumnTable) -> MatchKey:
    """Say what tells which entry a row has: ids, sample numbers or the order, as for a join.

    A table without ids has entries by sample number where it has one for every sample; a table
    with as many entries as there are tokens has one for every token.
    """
    if source.identity == "ids" and table.ids is not None:
        return "ids"
    samples = source.index.sample
    covers = source.has_sample_numbers and int(samples.max()) < table.n_rows
    is_by_row = source.n_rows == table.n_rows and bool((source.index.token != POOLED).any())
    return "sample numbers" if covers and not is_by_row else "row order"


def _name_of(source: EmbeddingSource, row: int) -> str:
    ids = source.index.ids
    return f"row {row}" if ids is None else repr(decode_ids(ids[[row]])[0])
