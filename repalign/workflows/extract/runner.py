"""Running batches on a device, halving those that do not fit its memory."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import ModelError
from repalign.models.loaders.boundary import is_out_of_memory
from repalign.workflows.extract.device import send
from repalign.workflows.extract.feed import HostBatch

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from repalign.models.loaders.loaded import LoadedModel, SoundInput
    from repalign.models.views.views import View

# Length of the sounds that the size of batches is tried with.
SOUND_SECONDS = 30


@dataclass(eq=False)
class Capacity:
    """The fewest input values of a batch that did not fit the memory so far."""

    too_many: float = math.inf


@dataclass(frozen=True, eq=False)
class BatchRunner:
    """A model on its device with the views that are wanted of it.

    ``normalising`` are the factor and the shift by which bytes of images become the model's input.
    ``capacity`` remembers which batches did not fit.
    """

    model: "LoadedModel"
    views: Sequence["View"]
    device: "torch.device"
    autocast: "torch.dtype | None" = None
    normalising: "tuple[NDArray[np.float32], NDArray[np.float32]] | None" = None
    capacity: Capacity = field(default_factory=Capacity)

    def run(self, batch: HostBatch) -> dict[str, "Tensor"]:
        """Rows of every view for one batch, on the device."""
        import torch

        from repalign.models.views.pooling import Batch, flatten_positions
        from repalign.models.views.views import encode_batch

        inputs = {key: send(tensor, self.device) for key, tensor in batch.inputs.items()}
        if self.normalising is not None and inputs["pixel_values"].dtype == torch.uint8:
            inputs["pixel_values"] = self._floats(inputs["pixel_values"])
        if "attention_mask" in inputs:
            # made wide on the device: (batch, 1, 1, width) is all that is copied
            width = inputs["attention_mask"].shape[-1]
            inputs["attention_mask"] = inputs["attention_mask"].expand(-1, -1, width, -1)
        lengths = None if batch.lengths is None else send(batch.lengths, self.device)
        kept = None
        if batch.positions is not None:
            samples, positions = flatten_positions(batch.positions)
            kept = send(samples, self.device), send(positions, self.device)
        on_device = Batch(inputs, lengths, kept)
        return encode_batch(self.model, self.views, on_device, autocast=self.autocast)

    def _floats(self, pixels: "Tensor") -> "Tensor":
        """Make ``(batch, channels, height, width)`` of bytes, on their device."""
        import torch

        assert self.normalising is not None
        scale, shift = (send(torch.from_numpy(each), self.device) for each in self.normalising)
        batch, height, width, channels = pixels.shape
        floats = torch.empty(batch, channels, height, width, device=pixels.device)
        return floats.copy_(pixels.permute(0, 3, 1, 2)).mul_(scale).sub_(shift)

    def run_fitting(self, batch: HostBatch) -> Iterator[tuple[HostBatch, dict[str, "Tensor"]]]:
        """Run a batch; where memory is too small, its halves, as for all later batches.

        Raises ModelError when a single sample does not fit.
        """
        rows, size = None, max(tensor.numel() for tensor in batch.inputs.values())
        if size < self.capacity.too_many or len(batch.members) == 1:
            try:
                rows = self.run(batch)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if len(batch.members) == 1:
                    raise ModelError(
                        f"one sample does not fit the memory of {self.device}; lower --max-length, "
                        "use --dtype bf16, or another device"
                    ) from error
                self.capacity.too_many = min(size, self.capacity.too_many)
        if rows is not None:
            yield batch, rows
            return
        # outside of the handler, whose traceback would keep the failed tensors alive
        release_memory(self.device)
        for half in split_batch(batch):
            yield from self.run_fitting(half)


def release_memory(device: "torch.device") -> None:
    """Give cached memory back after a failed allocation."""
    import torch

    if device.type == "cuda":
        torch.cuda.empty_cache()


def split_batch(batch: HostBatch) -> tuple[HostBatch, HostBatch]:
    """Cut a batch into two, each no wider than its own longest sample."""
    middle = len(batch.members) // 2
    first, second = _part(batch, slice(None, middle)), _part(batch, slice(middle, None))
    # which of them were cut is not known, only how many
    return replace(first, n_cut=batch.n_cut), second


def _part(batch: HostBatch, part: slice) -> HostBatch:
    lengths = None if batch.lengths is None else batch.lengths[part]
    inputs = {key: tensor[part] for key, tensor in batch.inputs.items()}
    n_units = len(batch.members[part])
    if lengths is not None and "input_ids" in inputs:
        n_units, width = int(lengths.sum()), int(lengths.max())
        inputs = {key: tensor[..., :width] for key, tensor in inputs.items()}
    positions = None if batch.positions is None else batch.positions[part]
    return HostBatch(inputs, batch.members[part], lengths, positions, n_units)


def fit_budget(fits: Callable[[int], bool], start: int, lowest: int) -> int:
    """Halve a batch budget until it fits, then take a fifth off as a margin.

    ``fits`` tries a batch of the given size made of the longest samples. A budget that fits at
    once is kept as it is.

    Raises ModelError when even the lowest does not fit.
    """
    budget = start
    while not fits(budget):
        if budget <= lowest:
            raise ModelError(
                "not even one sample fits the device; lower --max-length, use --dtype bf16, or "
                "another device"
            )
        budget = max(lowest, budget // 2)
    return budget if budget == start else max(lowest, budget * 4 // 5)


def probe_batch(model: "LoadedModel", size: int, length: int, image: Sequence[int]) -> HostBatch:
    """A batch of blank samples: ``size`` tokens in samples of ``length``, or ``size`` images."""
    import torch

    if model.sound is not None:
        return _sound_probe(model.sound, max(1, size // length))
    if model.family.kind == "image":
        channels = (model.image_size or (3, 0, 0))[0]
        pixels = torch.zeros(size, channels, *image)
        members = np.arange(size)
        return HostBatch({"pixel_values": pixels}, members, None, _first(size), size)
    count = max(1, size // length)
    ids = torch.zeros(count, length, dtype=torch.int64)
    lengths = torch.full((count,), length, dtype=torch.int64)
    return HostBatch({"input_ids": ids}, np.arange(count), lengths, _first(count), count * length)


def _sound_probe(sound: "SoundInput", count: int) -> HostBatch:
    import torch

    shape = sound.shape if len(sound.shape) > 1 else (SOUND_SECONDS * 16_000,)
    lengths = torch.full((count,), sound.frames(shape[-1]), dtype=torch.int64)
    inputs = {sound.takes: torch.zeros(count, *shape)}
    return HostBatch(inputs, np.arange(count), lengths, _first(count), count)


def _first(count: int) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return [np.zeros(1, dtype=np.int64)] * count
