"""What every source of plates gives."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repalign.aliases import FloatArray

PLATE, LABEL, CONTROL = "plate", "perturbation", "control"


@dataclass(frozen=True, eq=False)
class Plated:
    """Rows with what was done to each and the plate that it lay on.

    Attributes:
        values: Embeddings or profiles.
        perturbation: Name of what was done, ``control`` where nothing was.
        plate: Name of the plate.
    """

    values: FloatArray
    perturbation: NDArray[np.str_]
    plate: NDArray[np.str_]

    @property
    def columns(self) -> dict[str, NDArray[np.str_]]:
        """Labels and batches as ``deconfound`` takes them."""
        return {LABEL: self.perturbation, PLATE: self.plate}
