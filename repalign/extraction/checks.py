"""The check that embeddings depend neither on the batch nor on chance."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repalign.exceptions import ModelError
from repalign.extraction.batches import HostBatch
from repalign.extraction.device import Runner

if TYPE_CHECKING:
    from torch import Tensor

# Of the root mean square of a view; float32 in other batches differs by 1e-6 to 1e-4.
_TOLERANCE = 1e-3


def check_batch_invariance(runner: Runner, together: HostBatch, alone: Sequence[HostBatch]) -> None:
    """Run samples together, again, and each alone, in float32.

    Raises ModelError for a view whose rows differ from pass to pass, or with the other samples
    of a batch.
    """
    import torch

    plain = replace(runner, autocast=None)
    rows = plain.run(together)
    _compare(rows, plain.run(together), "other rows at every pass: it drops or masks at random")
    single = [plain.run(batch) for batch in alone]
    _compare(
        rows,
        {key: torch.cat([part[key] for part in single]) for key in rows},
        "a sample other rows in a batch than alone: they would depend on the batch",
    )


def _compare(rows: "dict[str, Tensor]", repeated: "dict[str, Tensor]", problem: str) -> None:
    for key, values in rows.items():
        difference = (repeated[key] - values).abs().max()
        gap = float(difference / values.square().mean().sqrt()) if difference else 0.0
        # what is not a number is refused later, with the sample that it belongs to
        if gap > _TOLERANCE:
            raise ModelError(
                f"the layer {key!r} gives {problem} (by {gap:.2g} of their size); choose another"
            )
