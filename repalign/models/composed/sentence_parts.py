"""The parts of sentence-transformers behind an encoder, computed as that library does."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from repalign.exceptions import ModelError

_ACTIVATION = "torch.nn.modules.activation."
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "torch.nn.modules.linear.Identity": nn.Identity,
    **{
        f"{_ACTIVATION}{kind.__name__}": kind
        for kind in (nn.Tanh, nn.ReLU, nn.GELU, nn.Sigmoid, nn.SiLU)
    },
}
# Old files say a mode by its own flag.
_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


class Pooling(nn.Module):
    """From the states of a text's tokens to one vector, of one mode or several side by side."""

    def __init__(self, modes: tuple[str, ...]) -> None:
        super().__init__()
        self.modes = modes

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Pooling":
        """Read the modes of a config, old or new.

        Raises ModelError for a mode that is not known.
        """
        setting = config.get("pooling_mode")
        if setting is None:
            setting = [mode for flag, mode in _FLAGS.items() if config.get(flag)] or ["mean"]
        modes = tuple(setting) if isinstance(setting, list) else (setting,)
        unknown = [mode for mode in modes if mode not in _FLAGS.values()]
        if unknown:
            raise ModelError(f"pooling mode {unknown[0]!r}; expected {', '.join(_FLAGS.values())}")
        return cls(modes)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        """Pool ``(batch, tokens, columns)``; ``mask`` is of real tokens, which stand first."""
        if mask is None:
            mask = torch.ones(states.shape[:2], device=states.device)
        real = mask.to(states.dtype)[..., None]
        return torch.cat([self._pooled(mode, states, real) for mode in self.modes], dim=-1)

    def _pooled(self, mode: str, states: Tensor, real: Tensor) -> Tensor:
        counts = real.sum(1)
        if mode == "cls":
            return states[:, 0]
        if mode == "max":
            return states.masked_fill(real == 0, -torch.inf).amax(1)
        if mode == "lasttoken":
            last = counts.long()[:, :, None].expand(-1, 1, states.shape[2]) - 1
            return states.gather(1, last)[:, 0]
        weights = real
        if mode == "weightedmean":
            weights = real * torch.arange(1, states.shape[1] + 1, device=real.device)[:, None]
            counts = weights.sum(1)
        total = states.masked_fill(real == 0, 0.0).mul(weights).sum(1)
        return total / (counts.sqrt() if mode == "mean_sqrt_len_tokens" else counts)


def _check_width(kind: str, n_columns: int, vector: Tensor) -> None:
    if vector.shape[-1] != n_columns:
        raise ModelError(
            f"a module {kind} takes {n_columns} columns and gets {vector.shape[-1]}; the modules "
            "do not belong together"
        )


class Dense(nn.Module):
    """A linear map of the vector, and an activation."""

    def __init__(self, n_in: int, n_out: int, *, bias: bool, activation: str) -> None:
        super().__init__()
        self.linear = nn.Linear(n_in, n_out, bias=bias)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, vector: Tensor) -> Tensor:
        """Map ``(batch, columns)``."""
        _check_width("Dense", self.linear.in_features, vector)
        mapped: Tensor = self.activation(self.linear(vector))
        return mapped


class Norm(nn.Module):
    """A layer norm of the vector."""

    def __init__(self, n_columns: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(n_columns)

    def forward(self, vector: Tensor) -> Tensor:
        """Normalise the columns of every row."""
        _check_width("LayerNorm", self.norm.normalized_shape[0], vector)
        normed: Tensor = self.norm(vector)
        return normed


class Normalize(nn.Module):
    """Vectors of length one."""

    def forward(self, vector: Tensor) -> Tensor:
        """Divide every row by its length."""
        return functional.normalize(vector, dim=-1)
