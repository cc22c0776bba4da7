"""A sample as its model takes it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Samples that are run together and alone before the first shard, and tokens of a text then.
CHECKED, CHECKED_TOKENS = 3, 64


@dataclass(frozen=True, eq=False)
class Item:
    """One prepared sample.

    Attributes:
        values: Token ids, pixels, a wave or features; padded along the last axis.
        length: Of texts and sounds, the real part of the last axis.
        is_cut: The sample was longer than the model takes.
    """

    values: NDArray[Any]
    length: int = 0
    is_cut: bool = False


def check_images(items: Sequence[Item]) -> list[Item]:
    """Return three images for the check of batches, mirrored where there are fewer."""
    mirrored = [replace(item, values=np.flip(item.values, axis=-1)) for item in items]
    turned = [replace(item, values=np.flip(item.values, axis=-2)) for item in items]
    return [*items, *mirrored, *turned][:CHECKED]


def check_lengths(items: Sequence[Item], longest: int) -> list[Item]:
    """Return samples of other lengths for the check of batches."""
    ordered = sorted(items, key=lambda item: item.length)
    first, last = (_cut(item, longest) for item in (ordered[-1], ordered[0]))
    return [first, _cut(first, max(1, first.length // 2)), last]


def _cut(item: Item, length: int) -> Item:
    if item.length <= length:
        return item
    return Item(item.values[..., :length], length)
