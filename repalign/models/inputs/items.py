"""Samples as a model takes them, and what the inputs of all modalities have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

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


class Inputs:
    """Prepares and collates the samples of one modality; the defaults of most.

    Attributes:
        unit: What the speed of an extraction counts.
        key: The name of the model's argument.
        in_bulk: ``prepare_all`` takes many samples at once, and is fast; else threads prepare.
        same_size: All samples have one size, and batches keep the order of the data.
        needs_equal_lengths: Only samples of one length may share a batch.
        longest: The length that a sample is cut to.
        shard_limit: Most samples of a shard by default.
    """

    unit = "images"
    key = "pixel_values"
    in_bulk = False
    same_size = False
    needs_equal_lengths = False
    longest = ""
    shard_limit = 1024

    def count_first(self, *, is_pooled: bool) -> int:
        """Return how many first samples show the rows of a sample, and are checked in batches."""
        return 16

    def prepare(self, value: Any) -> Item:
        """Return a sample as the model takes it."""
        raise NotImplementedError

    def prepare_all(self, values: Sequence[Any]) -> list[Item]:
        """Return samples as the model takes them."""
        return [self.prepare(value) for value in values]

    def states(self, item: Item, sample: str) -> int:
        """Return the number of states that the model gives for a sample."""
        raise NotImplementedError

    def default_budget(self, device: str) -> int:
        """Return the tokens, states or images of a batch on a kind of device.

        On the CPU small batches are fastest, whose activations stay in its caches (measured: 512
        or 1024 tokens are up to twice as fast as 4096). Fixed numbers, so that every run makes
        the same batches. Elsewhere large ones, halved where memory is short.
        """
        raise NotImplementedError

    def collate(self, items: Sequence[Item]) -> tuple[dict[str, Tensor], Tensor | None]:
        """Return a batch of the model's inputs and the states of each, on the host."""
        raise NotImplementedError

    def finish(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the model's inputs of a batch that is on its device."""
        return inputs

    def check_items(self, items: Sequence[Item]) -> list[Item]:
        """Return three short samples for the check of batches."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, object]:
        """Return the preparation as plain values for a store's spec."""
        raise NotImplementedError


def check_lengths(items: Sequence[Item], longest: int) -> list[Item]:
    """Return samples of other lengths for the check of batches."""
    ordered = sorted(items, key=lambda item: item.length)
    first, last = (_cut(item, longest) for item in (ordered[-1], ordered[0]))
    return [first, _cut(first, max(1, first.length // 2)), last]


def _cut(item: Item, length: int) -> Item:
    if item.length <= length:
        return item
    return Item(item.values[..., :length], length)
