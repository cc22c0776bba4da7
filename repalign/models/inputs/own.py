"""The preparation of images that comes with one's own model: a function from image to tensor."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import ModelError
from repalign.models.loaders.boundary import third_party

if TYPE_CHECKING:
    from PIL.Image import Image


class OwnPreparation:
    """Runs the function, and checks that every image comes out in the shape of the first."""

    def __init__(self, prepare: Callable[[Any], Any], name: str, first: "Image") -> None:
        self._prepare, self.name = prepare, name
        self.shape: tuple[int, ...] | None = None
        self.shape = self(first).shape

    def __call__(self, image: "Image") -> NDArray[np.float32]:
        """Turn an image into ``(channels, height, width)`` float32."""
        with third_party(f"the preprocessing of {self.name} cannot take an image"):
            values = np.asarray(self._prepare(image))
        is_plain = values.ndim == 3 and values.dtype.kind == "f"
        if not is_plain or (self.shape is not None and values.shape != self.shape):
            raise ModelError(
                f"the preprocessing of {self.name} gives {values.dtype} of shape {values.shape}, "
                f"expected floats of shape {self.shape or '(channels, height, width)'}; "
                "let it resize or crop every image to one size"
            )
        return values.astype(np.float32, copy=False)

    def as_dict(self) -> dict[str, object]:
        """The preparation as plain values for a store's spec."""
        assert self.shape is not None
        return {"name": self.name, "shape": list(self.shape)}
