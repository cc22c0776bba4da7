"""Ground-truth factors as class codes and as numbers, discrete or continuous."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from repalign.core.factors.mutual_info import encode_classes
from repalign.exceptions import InputError

FactorKind = Literal["discrete", "continuous"]
KINDS: tuple[FactorKind, ...] = ("discrete", "continuous")

# A numeric column with more distinct values than this is taken as continuous.
MAX_LEVELS = 100
DEFAULT_BINS = 20


@dataclass(frozen=True, eq=False)
class Factors:
    """m factors of n rows.

    ``codes`` are class codes ``0 .. K-1``; a continuous factor is binned there into bins of
    equal frequency, for mutual information. ``values`` are the numbers themselves (the codes,
    where the column is not numeric). ``notes`` say what was left out and why.
    """

    names: tuple[str, ...]
    codes: Int[np.ndarray, "n m"]
    values: Float[np.ndarray, "n m"]
    is_discrete: tuple[bool, ...]
    notes: tuple[str, ...] = ()
    n_bins: int = DEFAULT_BINS

    def deal(self, rows: Any) -> "Factors":
        """Return the factors that these rows would have had from the start.

        Bins of equal frequency follow from all rows: where rows of one kind become more, as when
        large groups change places with small ones, the bins are others.
        """
        dealt = self.take(rows)
        for j in np.flatnonzero(~np.array(self.is_discrete)):
            dealt.codes[:, j] = _equal_frequency_bins(dealt.values[:, j], self.n_bins)
        return dealt

    def take(self, rows: Any) -> "Factors":
        """Return the given rows, with codes renumbered where a class is absent from them."""
        codes = np.stack([encode_classes(column) for column in self.codes[rows].T], axis=1)
        return replace(self, codes=codes, values=self.values[rows])


def encode_factors(
    columns: Mapping[str, np.ndarray],
    *,
    kinds: Mapping[str, str] | None = None,
    n_bins: int = DEFAULT_BINS,
) -> Factors:
    """Encode named columns of equal length as factors.

    A column is continuous when it holds numbers with more than 100 distinct values, or with
    distinct values in more than half of its rows; ``kinds`` overrides this by name. Constant
    columns, and discrete columns in which every row has a class of its own, carry nothing that
    can be scored: they are left out, with a note.

    Raises InputError on unknown names or kinds, missing values, and when nothing is left.
    """
    overrides = dict(kinds or {})
    _check_overrides(overrides, columns)
    kept: list[tuple[str, Any, Any, bool]] = []
    notes: list[str] = []
    for name, column in columns.items():
        values = _numbers(name, column)
        kind = overrides.get(name) or guess_kind(column)
        codes = encode_classes(column)
        n_classes = int(codes.max()) + 1
        if n_classes == 1:
            notes.append(f"factor {name} is constant and was left out")
        elif kind == "discrete" and n_classes == codes.size:
            notes.append(
                f"factor {name} has a different value in every row and was left out; "
                "declare it continuous to bin it"
            )
        else:
            if kind == "continuous":
                codes = _equal_frequency_bins(values, n_bins)
            kept.append((name, codes, values, kind == "discrete"))
    if not kept:
        raise InputError(f"no factor can be scored: {'; '.join(notes) or 'no column was given'}")
    names, codes_kept, values_kept, discrete = zip(*kept, strict=True)
    all_codes, all_values = np.stack(codes_kept, axis=1), np.stack(values_kept, axis=1)
    return Factors(names, all_codes, all_values, discrete, tuple(notes), n_bins)


def guess_kind(column: np.ndarray) -> FactorKind:
    """Say whether a column looks discrete or continuous (see ``encode_factors``)."""
    if column.dtype.kind not in "iuf":
        return "discrete"
    n_distinct = np.unique(column).size
    many = n_distinct > MAX_LEVELS or n_distinct > max(2, column.size / 2)
    return "continuous" if many else "discrete"


def _check_overrides(overrides: Mapping[str, str], columns: Mapping[str, np.ndarray]) -> None:
    for name, kind in overrides.items():
        if name not in columns:
            raise InputError(f"no factor is called {name}; the factors are {', '.join(columns)}")
        if kind not in KINDS:
            raise InputError(f"factor {name} is declared {kind}; expected discrete or continuous")
        if kind == "continuous" and columns[name].dtype.kind not in "iufb":
            raise InputError(
                f"factor {name} is declared continuous but does not hold numbers; "
                "declare it discrete"
            )


def _numbers(name: str, column: np.ndarray) -> np.ndarray:
    if column.ndim != 1 or column.size == 0:
        raise InputError(f"factor {name} has shape {column.shape}; expected one value for each row")
    if column.dtype.kind not in "iufb":
        return encode_classes(column).astype(np.float64)
    values = column.astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError(
            f"factor {name} has {int((~np.isfinite(values)).sum())} missing or infinite values; "
            "leave those rows out"
        )
    return values


def _equal_frequency_bins(values: np.ndarray, n_bins: int) -> np.ndarray:
    if n_bins < 2:
        raise InputError(f"n_bins is {n_bins}; expected at least 2")
    edges = np.quantile(values, np.linspace(0, 1, n_bins + 1)[1:-1])
    return encode_classes(np.searchsorted(np.unique(edges), values, side="right"))
