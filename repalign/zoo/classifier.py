"""A narrow ResNet-18 that tells digits apart, in timm's format."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from repalign.zoo.digits import CLASSES, draw_digits, load_digits
from repalign.zoo.recipe import Recipe
from repalign.zoo.task import Figures
from repalign.zoo.timm_directory import save_timm_directory

if TYPE_CHECKING:
    from torch import Generator, Tensor

ARCHITECTURE = "resnet18"
_NARROWER = (16, 24, 32)


class ClassifierTask:
    """Name the digit; cross-entropy."""

    def __init__(self, recipe: Recipe) -> None:
        import timm

        self.recipe = recipe
        self._digits = load_digits()
        self._arguments: dict[str, Any] = {"in_chans": 1, "channels": [*_NARROWER, recipe.width]}
        self.module: Any = timm.create_model(ARCHITECTURE, num_classes=CLASSES, **self._arguments)

    def loss(self, generator: "Generator") -> "Tensor":
        """Return the cross-entropy of a batch."""
        from torch.nn.functional import cross_entropy

        images, labels = draw_digits(self._digits, self.recipe.batch_size, generator)
        return cross_entropy(self.module(images), labels)

    def figures(self) -> Figures:
        """Return accuracy on held-out digits and the share of the most frequent class."""
        import torch

        labels = self._digits.held_out_labels
        self.module.eval()
        with torch.inference_mode():
            right = self.module(self._digits.held_out_images).argmax(dim=1) == labels
        return {
            "held_out_accuracy": float(right.float().mean()),
            "majority_accuracy": float(labels.bincount().max() / len(labels)),
            "held_out_images": float(len(labels)),
        }

    def save(self, directory: Path) -> None:
        """Write the model as timm does."""
        save_timm_directory(directory, ARCHITECTURE, self._arguments, self.module.state_dict())
