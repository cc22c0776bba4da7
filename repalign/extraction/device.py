"""The device that runs the model, and batches on it."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from repalign.exceptions import InputError, ModelError
from repalign.extraction.batches import HostBatch
from repalign.extraction.plan import read_local_rank

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from repalign.models.capture import View
    from repalign.models.encoder import Encoder

T = TypeVar("T")
Rows = dict[str, "Tensor"]


def choose_device(name: str) -> "torch.device":
    """Return a device by name; ``auto`` takes CUDA, then MPS, then the CPU.

    Without a number, processes of torchrun or Slurm take the CUDA devices of a machine in turn.

    Raises InputError for an unknown name and for a device that is not there.
    """
    import torch

    if name == "auto":
        backends = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        name = next((kind for kind, is_there in backends.items() if is_there), "cpu")
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (number and (kind != "cuda" or not number.isdigit())):
        raise InputError(f"unknown device {name!r}; expected auto, cpu, cuda, cuda:N or mps")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise InputError(
            f"device {name} was asked for, and there are {torch.cuda.device_count()} CUDA devices; "
            "use another device (see `repalign doctor`)"
        )
    if kind == "mps" and not torch.backends.mps.is_available():
        raise InputError("device mps was asked for and is not available; use --device cpu")
    local_rank = read_local_rank()
    if name == "cuda" and local_rank is not None:
        return torch.device("cuda", local_rank % torch.cuda.device_count())
    return torch.device(name)


def autocast_dtype(name: str) -> "torch.dtype | None":
    """Return the type that matrix products run in, None for plain float32."""
    import torch

    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


@dataclass(eq=False)
class Capacity:
    """The fewest input values of a batch that did not fit so far."""

    too_many: float = math.inf


@dataclass(frozen=True, eq=False)
class Runner:
    """Runs batches through an encoder, and halves those that do not fit.

    Attributes:
        encoder: The encoder.
        views: What is taken of it.
        device: Where it runs.
        finish: Makes the model's arguments of a batch that is on the device.
        autocast: The type of matrix products, None for float32.
        capacity: What did not fit.
    """

    encoder: "Encoder"
    views: "Sequence[View]"
    device: "torch.device"
    finish: Callable[[Rows], Rows] = dict
    autocast: "torch.dtype | None" = None
    capacity: Capacity = field(default_factory=Capacity)

    def run(self, batch: HostBatch) -> Rows:
        """Return the rows of every view for one batch, on the device."""
        from repalign.models.capture import encode
        from repalign.models.pooling import Batch, flatten_positions

        inputs = self.finish({key: self._send(value) for key, value in batch.inputs.items()})
        lengths = None if batch.lengths is None else self._send(batch.lengths)
        tokens = None
        if batch.positions is not None:
            samples, positions = flatten_positions(batch.positions)
            tokens = self._send(samples), self._send(positions)
        on_device = Batch(inputs, lengths, tokens)
        return encode(self.encoder, self.views, on_device, autocast=self.autocast)

    def _send(self, tensor: "Tensor") -> "Tensor":
        """Copy a tensor to the device, without waiting where that is possible."""
        if self.device.type == "cuda" and not tensor.is_pinned():
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def run_fitting(self, batch: HostBatch) -> Iterator[tuple[HostBatch, Rows]]:
        """Run a batch, or its halves where memory is too small.

        All later batches of that size are halved too.

            Raises ModelError when a single sample does not fit.
        """
        import torch

        from repalign.models.calls import is_out_of_memory

        rows, size = None, max(tensor.numel() for tensor in batch.inputs.values())
        count = len(batch.members)
        if size < self.capacity.too_many or count == 1:
            try:
                rows = self.run(batch)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if count == 1:
                    raise ModelError(
                        f"one sample does not fit the memory of {self.device}; lower --max-length, "
                        "use --dtype bf16, or another device"
                    ) from error
                self.capacity.too_many = min(size, self.capacity.too_many)
        if rows is not None:
            yield batch, rows
            return
        # outside of the handler, whose traceback would keep the failed tensors alive
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        for half in (slice(None, count // 2), slice(count // 2, None)):
            yield from self.run_fitting(batch.part(half))


def rows_on_host(results: Iterable[tuple[T, Rows]]) -> Iterator[tuple[T, Rows]]:
    """Bring rows to the host, from CUDA one batch behind.

    The device never waits: a copy from CUDA runs while the next batch is computed, and is handed
    out only after its event: read earlier it would hold wrong numbers. From other devices rows
    come at once.
    """
    behind: tuple[T, Rows, Any] | None = None
    for tag, rows in results:
        if not any(row.device.type == "cuda" for row in rows.values()):
            yield tag, {key: row.cpu() for key, row in rows.items()}
            continue
        before, behind = behind, (tag, *_start_copy(rows))
        if before is not None:
            before[2].synchronize()
            yield before[:2]
    if behind is not None:
        behind[2].synchronize()
        yield behind[:2]


def _start_copy(rows: Rows) -> tuple[Rows, Any]:
    """Start copies into pinned memory; the event is over when they are."""
    import torch

    copies = {}
    for key, row in rows.items():
        host = torch.empty(row.shape, dtype=row.dtype, pin_memory=True)
        copies[key] = host.copy_(row, non_blocking=True)
    event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    # of the device that copies, which need not be the current one
    event.record(torch.cuda.current_stream(next(iter(rows.values())).device))
    return copies, event
