"""What the training loop needs to know of a model and its data."""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

Figures = dict[str, float]


class Task(Protocol):
    """A model with its data: a loss to follow, figures to judge it by, a format to save it in."""

    @property
    def module(self) -> "nn.Module":
        """The module that is trained."""
        ...

    def loss(self, generator: "Generator") -> "Tensor":
        """Return the loss of one batch that the generator draws."""
        ...

    def figures(self) -> Figures:
        """Judge the model on data that it was not trained on."""
        ...

    def save(self, directory: Path) -> None:
        """Write the model as its library would."""
        ...


def data_generator(seed: int, step: int) -> "Generator":
    """Return the randomness of one step, the same whether or not training was interrupted."""
    import torch

    return torch.Generator().manual_seed(seed * 1_000_003 + step)
