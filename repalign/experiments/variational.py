"""What variational autoencoders add to the reconstruction: β-VAE and β-TCVAE.

β-VAE (Higgins et al. 2017) multiplies the divergence from the prior by β; β-TCVAE (Chen et al.
2018) only the part of it that is the total correlation of the latents.
"""

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

AutoencoderKind = Literal["plain", "beta-vae", "beta-tcvae"]


def drawn(means: "Tensor", log_variances: "Tensor") -> "Tensor":
    """Draw latents from their posterior so that gradients pass."""
    import torch

    return means + torch.exp(0.5 * log_variances) * torch.randn_like(means)


def divergence(means: "Tensor", log_variances: "Tensor") -> "Tensor":
    """Return the mean Kullback-Leibler divergence of posteriors from the standard normal, nats."""
    each = means.square() + log_variances.exp() - 1 - log_variances
    return 0.5 * each.sum(dim=1).mean()


def total_correlation(
    latents: "Tensor", means: "Tensor", log_variances: "Tensor", n_rows: int
) -> "Tensor":
    """Estimate the total correlation of the aggregate posterior from a batch.

    Minibatch-weighted sampling (Chen et al. 2018, equation 5) for data of ``n_rows`` rows.
    """
    import torch

    away = latents[:, None] - means[None]
    density = -0.5 * (
        away.square() / log_variances.exp()[None] + log_variances[None] + math.log(2 * math.pi)
    )
    known = math.log(n_rows * len(latents))
    joint = torch.logsumexp(density.sum(dim=2), dim=1) - known
    product = (torch.logsumexp(density, dim=1) - known).sum(dim=1)
    return (joint - product).mean()
