"""Whitened rows for ICA: in memory when they fit, else whitened anew from the rows on each pass."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Integer

from repalign.aliases import Rows
from repalign.core.device import matmul_kernels
from repalign.core.ica.settings import WHITENED_BYTES
from repalign.core.linalg import Whitening
from repalign.core.rows import SubsetRows, check_finite_block, iter_blocks
from repalign.exceptions import InputError

PASS_BLOCK_ROWS = 4096
_READ_ROWS = 8192
# Fewer where several lanes whiten at once; rows are whitened alike in blocks of any size.
_WHITEN_ROWS = 2048
_COARSE_RANK = 64
_SMALLEST_VARIANCE = 1e-6


@dataclass(frozen=True, eq=False)
class WhitenedRows:
    """Rows of unit covariance in single precision, on the device.

    Attributes:
        rows: The rows to fit on.
        whitening: Takes them to unit covariance.
        device: Where the blocks are wanted.
        resident: All whitened rows, n×k, or None where they are streamed.
        coarse: The same in bfloat16, or None where that is of no use.
    """

    rows: Rows
    whitening: Whitening
    device: str
    resident: torch.Tensor | None
    coarse: torch.Tensor | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.shape[0]

    def blocks(self, *, coarse: bool = False) -> Iterator[torch.Tensor]:
        """Yield consecutive blocks of whitened rows, to be read only; rounded if ``coarse``."""
        if coarse and self.coarse is not None:
            yield from torch.split(self.coarse, PASS_BLOCK_ROWS)
            return
        if self.resident is None:
            yield from _whitened_blocks(self.rows, self.whitening, self.device, _READ_ROWS)
            return
        yield from torch.split(self.resident, PASS_BLOCK_ROWS)

    def project(self, directions: Float[np.ndarray, "m k"]) -> "WhitenedRows":
        """Return the coordinates of the rows along some orthonormal directions."""
        if self.resident is None:
            whitening = Whitening(
                mean=self.whitening.mean,
                matrix=directions @ self.whitening.matrix,
                inverse=self.whitening.inverse @ directions.T,
                variances=np.ones(len(directions)),
                n_constant=0,
                cut=self.whitening.cut,
            )
            return WhitenedRows(self.rows, whitening, self.device, None)
        onto = torch.from_numpy(directions.T.copy()).to(self.resident)
        return WhitenedRows(self.rows, self.whitening, self.device, self.resident @ onto)


def _whitened_blocks(
    rows: Rows, whitening: Whitening, device: str, block_rows: int
) -> Iterator[torch.Tensor]:
    matrix = torch.from_numpy(np.ascontiguousarray(whitening.matrix.T)).to(device).float()
    for start, block in iter_blocks(rows, block_rows):
        check_finite_block(block, first_row=start, name="the rows of the ICA")
        # Centred in double precision: a large common offset would cost single-precision digits.
        centred = torch.from_numpy(np.subtract(block, whitening.mean, dtype=np.float64))
        yield centred.to(device=device, dtype=torch.float32) @ matrix


def whiten_rows(
    rows: Rows, whitening: Whitening, *, memory_bytes: int, device: str
) -> WhitenedRows:
    """Whiten rows, and keep them in memory where half of the cap holds them.

    A copy in bfloat16 is kept next to them where the device multiplies it faster, and the rank
    is large enough for the rounding of many products to average out.
    """
    n_rows, rank = rows.shape[0], whitening.rank
    resident = None
    if WHITENED_BYTES * n_rows * rank <= memory_bytes // 2:
        resident = torch.empty((n_rows, rank), dtype=torch.float32, device=device)
        start = 0
        for block in _whitened_blocks(rows, whitening, device, _WHITEN_ROWS):
            resident[start : start + len(block)] = block
            start += len(block)
    return WhitenedRows(rows, whitening, device, resident, _coarse_copy(resident, device))


def whiten_sample(data: WhitenedRows) -> tuple[WhitenedRows, Float[np.ndarray, "k k"]]:
    """Whiten rows again by their own mean and covariance, where they are a sample of all rows.

    A rotation can only unmix rows whose own covariance is the identity: on a sample of k
    components in n rows it differs by √(k/n), and light tails drown in that. Returns the rows
    and the symmetric matrix that whitened them.

    Raises:
        InputError: The sample does not vary in all directions.
    """
    rank, n_rows = data.whitening.rank, data.n_rows
    scatter = torch.zeros((rank, rank), dtype=torch.float64, device=data.device)
    total = torch.zeros(rank, dtype=torch.float64, device=data.device)
    for block in data.blocks():
        scatter += block.T @ block
        total += block.sum(0)
    mean = (total / n_rows).cpu().numpy()
    values, vectors = np.linalg.eigh(scatter.cpu().numpy() / n_rows - np.outer(mean, mean))
    if n_rows <= rank or values[0] <= _SMALLEST_VARIANCE:
        raise InputError(
            f"a sample of {n_rows} rows cannot be unmixed into {rank} components; "
            "fit on more rows, or on fewer directions"
        )
    again = (vectors / np.sqrt(values)) @ vectors.T
    back = (vectors * np.sqrt(values)) @ vectors.T
    whitening = Whitening(
        mean=data.whitening.mean + data.whitening.inverse @ mean,
        matrix=again @ data.whitening.matrix,
        inverse=data.whitening.inverse @ back,
        variances=data.whitening.variances,
        n_constant=data.whitening.n_constant,
        cut=data.whitening.cut,
    )
    resident = data.resident
    if resident is not None:
        moved = torch.from_numpy(mean).to(resident)
        resident = (resident - moved) @ torch.from_numpy(again).to(resident)
    coarse = _coarse_copy(resident, data.device)
    return WhitenedRows(data.rows, whitening, data.device, resident, coarse), again


def _coarse_copy(resident: torch.Tensor | None, device: str) -> torch.Tensor | None:
    if resident is None or resident.shape[1] < _COARSE_RANK:
        return None
    return resident.bfloat16() if matmul_kernels(device).has_bfloat16 else None


def sample_rows(rows: Rows, n_sample: int, *, seed: int) -> Rows:
    """Return ``n_sample`` rows drawn without replacement, or all where there are no more."""
    n_rows = rows.shape[0]
    if n_sample >= n_rows:
        return rows
    return SubsetRows(rows, drawn_rows(n_rows, n_sample, seed=seed))


def drawn_rows(n_rows: int, n_sample: int, *, seed: int) -> Integer[np.ndarray, " n"]:
    """Return the numbers of the rows that a sample takes."""
    return np.sort(np.random.default_rng(seed).choice(n_rows, n_sample, replace=False))
