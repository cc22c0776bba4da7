"""One pass over whitened rows: all that a step of the search for a rotation needs."""

from dataclasses import dataclass

import torch

from repalign.core.ica.contrast import Contrast
from repalign.core.ica.data import WhitenedRows


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
    held: tuple[torch.Tensor, ...] = ()
    for block in data.blocks(coarse=coarse):
        # The first block is the longest: later ones use its memory again.
        held = held or _memory_like(block)
        product, y, spare = (tensor[: len(block)] for tensor in held)
        torch.mm(block, w, out=product)
        if coarse:
            y.copy_(product)
        slope += contrast.score(y, spare)
        if coarse:
            product.copy_(y)
        total += product.T @ block
    return ContrastPass((total / data.n_rows) @ rotation.T, slope / data.n_rows)


def _memory_like(block: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return memory for a product with a block, the same in single precision, and as much again."""
    product = torch.empty_like(block)
    y = product if block.dtype == torch.float32 else torch.empty_like(block, dtype=torch.float32)
    return product, y, torch.empty_like(y)
