"""Contrast functions of ICA, and one pass over whitened rows: what a step of the search needs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from repalign.core.ica.data import WhitenedRows
from repalign.core.ica.settings import IcaContrast


@dataclass(frozen=True)
class Contrast:
    """A scalar function G of a component y, with ψ = G' and the mean of G under a Gaussian.

    Attributes:
        name: As given by the user and by scikit-learn.
        score: Replaces y by ψ(y) and returns the column sums of ψ'(y), using up a second
            tensor of its size: memory that is mapped anew for every block costs more than the
            arithmetic.
        value: G(y), for reports.
        gaussian_mean: E G(y) for a standard normal y.
        super_gaussian_sign: Sign of E ψ'(y) − E y ψ(y) for tails heavier than the Gaussian's.
    """

    name: IcaContrast
    score: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    value: Callable[[torch.Tensor], torch.Tensor]
    gaussian_mean: float
    super_gaussian_sign: float


def _logcosh_score(y: torch.Tensor, spare: torch.Tensor) -> torch.Tensor:
    if y.device.type == "cpu":
        # numpy's single-precision tanh is six times as fast as torch's, on the same memory.
        np.tanh(y.numpy(), out=y.numpy())
    else:
        y.tanh_()
    return y.shape[0] - torch.mul(y, y, out=spare).sum(0)


def _logcosh_value(y: torch.Tensor) -> torch.Tensor:
    size = y.abs()
    return size + torch.log1p(torch.exp(-2 * size)) - float(np.log(2.0))


def _exp_score(y: torch.Tensor, spare: torch.Tensor) -> torch.Tensor:
    square = torch.mul(y, y, out=spare)
    bell = torch.exp(-0.5 * square)
    y.mul_(bell)
    return square.neg_().add_(1).mul_(bell).sum(0)


def _cube_score(y: torch.Tensor, spare: torch.Tensor) -> torch.Tensor:
    square = torch.mul(y, y, out=spare)
    y.mul_(square)
    return 3 * square.sum(0)


CONTRASTS: dict[str, Contrast] = {
    # E log cosh of a standard normal has no closed form; by quadrature to all digits.
    "logcosh": Contrast("logcosh", _logcosh_score, _logcosh_value, 0.3745672074914380, 1.0),
    "exp": Contrast("exp", _exp_score, lambda y: -torch.exp(-0.5 * y * y), -(2.0**-0.5), 1.0),
    "cube": Contrast("cube", _cube_score, lambda y: 0.25 * y**4, 0.75, -1.0),
}
"""Name → contrast function; the names are scikit-learn's."""


@dataclass(frozen=True, eq=False)
class ContrastPass:
    """Averages over the rows at one rotation, y = W z.

    Attributes:
        product: E ψ(y) yᵀ, k×k.
        slope: E ψ'(y), length k.
    """

    product: torch.Tensor
    slope: torch.Tensor

    @property
    def excess(self) -> torch.Tensor:
        """E ψ'(y) − E y ψ(y) of each component: zero for a Gaussian, by Stein's identity."""
        return self.slope - self.product.diagonal()


def measure_contrast(
    data: WhitenedRows, contrast: Contrast, rotation: torch.Tensor, *, coarse: bool = False
) -> ContrastPass:
    """Return the averages at a rotation, from rounded rows if ``coarse``."""
    w = rotation.T.contiguous().to(torch.bfloat16 if coarse else torch.float32)
    total = torch.zeros_like(rotation)
    slope = torch.zeros_like(rotation[0])
    memory: tuple[torch.Tensor, ...] = ()
    for block in data.blocks(coarse=coarse):
        if not memory:  # the first block is the longest: later ones use its memory again
            product = torch.empty_like(block)
            spare = torch.empty_like(block, dtype=torch.float32)
            is_single = block.dtype == torch.float32
            memory = product, product if is_single else torch.empty_like(spare), spare
        product, y, spare = (tensor[: len(block)] for tensor in memory)
        torch.mm(block, w, out=product)
        if coarse:
            y.copy_(product)
        slope += contrast.score(y, spare)
        if coarse:
            product.copy_(y)
        total += product.T @ block
    return ContrastPass((total / data.n_rows) @ rotation.T, slope / data.n_rows)
