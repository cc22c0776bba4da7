"""Denominators of errors: the exact diameter, a quantile of the distances, the RMS radius.

One outlier row can set the diameter; it cannot set the other two.

The diameter is the largest distance between two rows, found without all pairs. Let c be any
centre and r_i = ‖x_i − c‖. Five steps, each of which only discards pairs that are proved to be no
farther apart than a pair already measured:

1. Lower bound L: the largest distance among the rows of largest radius, measured exactly.
2. d(i, j) ≤ r_i + r_j (triangle inequality), so a row with r_i + max r < L belongs to no pair
   that could beat L: it is dropped.
3. The remaining rows are sorted by falling radius and cut into tiles; radii fall along a row
   of tiles, so that it ends at the first tile with r_i + r_j < L.
4. Inside a tile, the cosines of all pairs are bounded from below by one low-precision product
   (``core/cosine_bounds.py``). With cosine ≥ κ for all j of the tile, and R the tile's largest
   radius, d² = r_i² + r_j² − 2 r_i r_j cos ≤ r_i² + R² + 2 r_i R max(0, −κ): if that is below
   L², no pair of row i with the tile can beat L.
5. What survives is measured in double precision on the original rows, and raises L.

Only bounds are approximate, and they are rounded outwards; so the result is the distance of a
real pair and no other pair is farther, but for rounding of double precision (relative 1e-12,
and 2⁻⁵⁰ of the distance of the rows from the origin).

If the product's budget or the memory ends first, the rows left out all have radii ≤ ρ, so that
no pair with one of them is farther than max r + ρ: the result is a certified interval.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Integer

from repalign.aliases import Rows
from repalign.core.affine import AffineMap
from repalign.core.cosine_bounds import UnitRows, build_unit_rows
from repalign.core.device import DeviceArray, on_device, one_pool
from repalign.core.moments import PairMoments
from repalign.core.rows import (
    DEFAULT_MEMORY,
    block_rows_for,
    check_finite_block,
    check_shape,
    iter_blocks,
    take_in_order,
)
from repalign.exceptions import InputError

DEFAULT_BUDGET = 4e13
"""Multiplications that the exact search may take, unless set otherwise: minutes on two cores."""

_FIRST_ROWS = 1024
_TILE_ROWS = 2048
_RELATIVE_ROUNDING = 1e-12
# Multiplications from which on torch, which knows faster kernels of low precision, is imported.
_WORTH_TORCH = 2e11


@dataclass(frozen=True)
class Diameter:
    """Largest distance between two rows, or an interval that is certain to hold it.

    Attributes:
        value: Distance of the farthest pair found; a lower bound of the diameter.
        upper: Upper bound of the diameter; ``value`` where exact.
        exact: No pair is farther apart than ``value``.
        first_row: Row number of one end, the smaller.
        second_row: Row number of the other end.
    """

    value: float
    upper: float
    exact: bool
    first_row: int
    second_row: int


def diameter(
    rows: Rows,
    *,
    centre: Float[np.ndarray, " d"] | None = None,
    memory_bytes: int = DEFAULT_MEMORY,
    budget: float = DEFAULT_BUDGET,
    device: str = "cpu",
    on_progress: Callable[[int, int], None] | None = None,
) -> Diameter:
    """Return the largest Euclidean distance between two rows.

    ``centre`` may be any point; the mean (found by one more reading where it is not given)
    prunes best. ``budget`` bounds the number of multiplications of the search, and thereby its
    time, without making the result depend on the speed of the machine.

    Raises:
        InputError: There is no row, or a value is not finite (the row is named).
    """
    check_shape(rows.shape, name="the rows")
    block_rows = block_rows_for(memory_bytes, row_bytes=rows.shape[1] * 24)
    with one_pool(device):
        centre = _mean(rows, block_rows) if centre is None else centre
        radii = _radii(rows, centre, block_rows)
        search = _Search(rows, centre, radii, device)
        order = np.argsort(-radii, kind="stable")
        search.measure(order[:_FIRST_ROWS], order[:_FIRST_ROWS])
        search.sweep(order, block_rows)
        candidates = order[radii[order] + radii[order[0]] >= search.threshold]
        room = max(memory_bytes // (4 * rows.shape[1]), _FIRST_ROWS)
        searched = candidates[:room]
        upper = search.run(searched, budget, on_progress)
        if len(searched) < len(candidates):
            upper = max(upper, float(radii[order[0]] + radii[candidates[room]]))
    value = search.value
    first, second = sorted(search.pair)
    exact = upper <= value + search.rounding
    return Diameter(value, value if exact else upper, exact, first, second)


def _mean(rows: Rows, block_rows: int) -> Float[np.ndarray, " d"]:
    total = np.zeros(rows.shape[1])
    for start, block in iter_blocks(rows, block_rows):
        check_finite_block(block, first_row=start, name="the target")
        total += block.sum(axis=0, dtype=np.float64)
    return total / rows.shape[0]


def _radii(rows: Rows, centre: Float[np.ndarray, " d"], block_rows: int) -> Float[np.ndarray, " n"]:
    radii = np.empty(rows.shape[0])
    for start, block in iter_blocks(rows, block_rows):
        check_finite_block(block, first_row=start, name="the target")
        offsets = block - centre
        radii[start : start + len(block)] = np.sqrt(np.einsum("ij,ij->i", offsets, offsets))
    return radii


class _Search:
    """The farthest pair so far, and the pairs that could still beat it."""

    def __init__(
        self,
        rows: Rows,
        centre: Float[np.ndarray, " d"],
        radii: Float[np.ndarray, " n"],
        device: str,
    ) -> None:
        self.rows, self.centre, self.radii, self.device = rows, centre, radii, device
        self.value = 0.0
        self.pair = (0, 0)
        # Coordinates carry this much rounding, so that smaller differences mean nothing.
        reach = float(np.linalg.norm(centre)) + float(radii.max())
        self._absolute = 2.0**-50 * reach

    @property
    def rounding(self) -> float:
        """How much farther a pair may be without being farther beyond rounding."""
        return self._absolute + _RELATIVE_ROUNDING * self.value

    @property
    def threshold(self) -> float:
        """Pairs whose bound is below this cannot beat the pair found."""
        return self.value + self.rounding

    def _centred(self, chosen: Integer[np.ndarray, " k"]) -> DeviceArray:
        values = take_in_order(self.rows, chosen).astype(np.float64) - self.centre
        return on_device(values, self.device)

    def measure(self, first: Integer[np.ndarray, " a"], second: Integer[np.ndarray, " b"]) -> None:
        """Measure all pairs of two sets of rows exactly, and keep the farthest."""
        a = self._centred(first)
        b = a if first is second else self._centred(second)
        squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :]
        squares -= 2.0 * (a @ b.T)
        flat = int(squares.argmax())
        i, j = int(first[flat // len(second)]), int(second[flat % len(second)])
        ends = take_in_order(self.rows, np.array([i, j])).astype(np.float64)
        distance = float(np.linalg.norm(ends[0] - ends[1]))
        if distance > self.value:
            self.value, self.pair = distance, (i, j)

    def sweep(self, order: Integer[np.ndarray, " n"], block_rows: int) -> None:
        """Walk from the farthest pair's ends to the rows farthest from them, while it grows."""
        for _ in range(4):
            before = self.value
            end = np.array([self.pair[0]])
            reachable = order[self.radii[order] + self.radii[end[0]] >= self.threshold]
            for start in range(0, len(reachable), block_rows):
                self.measure(end, reachable[start : start + block_rows])
            self.pair = self.pair[::-1]
            if self.value <= before:
                return

    def run(
        self,
        kept: Integer[np.ndarray, " m"],
        budget: float,
        on_progress: Callable[[int, int], None] | None,
    ) -> float:
        """Search the kept rows, sorted by falling radius; return the upper bound reached."""
        if len(kept) <= _TILE_ROWS:
            if kept.size:
                self.measure(kept, kept)
            return self.value
        unit = build_unit_rows(
            self.rows, kept, self.centre, self.radii, self._bounding_device(len(kept))
        )
        radii = self.radii[kept]
        n_tiles = -(-len(kept) // _TILE_ROWS)
        spent = 0.0
        for column in range(n_tiles):
            farthest = float(radii[0] + radii[column * _TILE_ROWS])
            if farthest < self.threshold:
                if on_progress is not None:
                    on_progress(n_tiles, n_tiles)
                break
            spent += float((column + 1) * _TILE_ROWS**2 * unit.dim)
            if spent > budget:
                return max(self.value, farthest)
            for row in range(column + 1):
                if radii[row * _TILE_ROWS] + radii[column * _TILE_ROWS] < self.threshold:
                    break
                self._tile(kept, unit, row, column)
            if on_progress is not None:
                on_progress(column + 1, n_tiles)
        return self.value

    def _bounding_device(self, n_kept: int) -> str | None:
        """Return where bounds are computed: None for numpy, where torch is not worth its import.

        The size alone decides, so that the same rows are searched alike in every run.
        """
        is_short = n_kept**2 * self.rows.shape[1] < _WORTH_TORCH
        return None if self.device == "cpu" and is_short else self.device

    def _tile(self, kept: Integer[np.ndarray, " m"], unit: UnitRows, row: int, column: int) -> None:
        first = slice(row * _TILE_ROWS, min((row + 1) * _TILE_ROWS, len(kept)))
        second = slice(column * _TILE_ROWS, min((column + 1) * _TILE_ROWS, len(kept)))
        r, reach = self.radii[kept[first]], float(self.radii[kept[second.start]])
        lowest = unit.lowest_cosines(first, second)
        bound = r**2 + reach**2 + 2 * r * reach * np.maximum(0.0, -lowest)
        alive = np.flatnonzero(np.sqrt(bound) >= self.threshold)
        if alive.size:
            self.measure(kept[first][alive], kept[second])


# ‖x‖² + ‖y‖² − 2⟨x, y⟩ is known to the rounding of the squares: a distance whose square is this
# share of the largest has lost two digits, and is computed from differences instead.
_FAR = 1e-2


def rms_radius(moments: PairMoments, space: AffineMap | None = None) -> float:
    """Return the root mean squared distance of the target rows from their mean, in a space."""
    if space is None:
        return float(np.sqrt(np.trace(moments.syy) / moments.n)) if moments.n else 0.0
    scatter = np.einsum("ij,ik,kj->", space.matrix, moments.syy, space.matrix, optimize=True)
    return float(np.sqrt(max(scatter, 0.0) / moments.n))


def quantile_diameter(
    rows: Rows, *, quantile: float = 0.99, sample_rows: int = 2000, seed: int = 0
) -> float:
    """Return a quantile of the distances between two different rows.

    The estimator is the empirical quantile over all pairs of ``sample_rows`` rows drawn without
    replacement (all rows where there are no more), so that it is exact for small stores and has
    a relative standard error of well under one percent else. A single row has distance 0.

    Raises:
        InputError: The quantile lies outside (0, 1].
    """
    if not 0 < quantile <= 1:
        raise InputError(f"the quantile is {quantile}; expected a number above 0, at most 1")
    n_rows = rows.shape[0]
    if n_rows < 2:
        return 0.0
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(n_rows, min(sample_rows, n_rows), replace=False))
    sample = rows.take(chosen).astype(np.float64, copy=False)
    centred = sample - sample.mean(axis=0)
    squares = np.einsum("ij,ij->i", centred, centred)
    distance = float(np.quantile(_distances(centred, squares), quantile, overwrite_input=True))
    if distance**2 < _FAR * squares.max():
        from scipy.spatial.distance import pdist

        distance = float(np.quantile(pdist(sample), quantile, overwrite_input=True))
    return distance


def _distances(
    values: Float[np.ndarray, "n d"], squares: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " pairs"]:
    """Return the distances of all pairs from one product, which takes a third of the time."""
    product = values @ values.T
    product *= -2
    product += squares
    product += squares[:, None]
    distances = np.concatenate([line[row + 1 :] for row, line in enumerate(product)])
    return np.sqrt(np.maximum(distances, 0, out=distances), out=distances)
