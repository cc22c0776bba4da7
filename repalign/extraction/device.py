"""The process and its device: which they are, batches on the device, and the check of them."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from repalign.exceptions import InputError, ModelError
from repalign.extraction.batches import HostBatch
from repalign.extraction.settings import ExtractSettings

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from repalign.models.capture import View
    from repalign.models.encoder import Encoder

T = TypeVar("T")
Rows = dict[str, "Tensor"]

# Rank, number of processes, rank among those of one machine.
_RANKS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)
# Of the root mean square of a view; float32 in other batches differs by 1e-6 to 1e-4, bfloat16 by
# 1e-3 to 1e-2.
_TOLERANCE, _BF16_TOLERANCE = 1e-3, 1e-1


def read_rank(environment: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Return the rank of this process and the number of processes.

    Both are those of torchrun or Slurm.

    Raises InputError when they make no sense.
    """
    variables = os.environ if environment is None else environment
    for rank_name, size_name, _ in _RANKS:
        if rank_name in variables and size_name in variables:
            texts = variables[rank_name], variables[size_name]
            if not all(text.isdigit() for text in texts) or int(texts[0]) >= int(texts[1]):
                raise InputError(
                    f"{rank_name}={texts[0]} and {size_name}={texts[1]} make no sense; "
                    "expected a rank below the number of processes, or neither variable"
                )
            return int(texts[0]), int(texts[1])
    return 0, 1


def read_local_rank(environment: Mapping[str, str] | None = None) -> int | None:
    """Return the rank among the processes of this machine, None without a launcher.

    Raises InputError when it is not a number.
    """
    variables = os.environ if environment is None else environment
    for rank_name, size_name, local_name in _RANKS:
        if rank_name in variables and size_name in variables:
            text = variables.get(local_name)
            if text is not None and not text.isdigit():
                raise InputError(
                    f"{local_name}: got {text!r}, expected a whole number; leave it out, or use "
                    "--device cuda:N"
                )
            return None if text is None else int(text)
    return None


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


def casts(
    settings: ExtractSettings, device: str
) -> "tuple[torch.dtype | None, torch.dtype | None]":
    """Return what a ``Runner`` casts: matrix products, and inputs of weights in bf16.

    Raises InputError for types that the kind of device, or the type of the weights, rules out.
    """
    import torch

    if settings.dtype == "tf32" and device != "cuda":
        raise InputError(f"--dtype tf32 on the device {device}: only CUDA has it; use fp32")
    if settings.weights == "bf16" and settings.dtype != "bf16":
        raise InputError("--weights bf16 runs the whole model in bf16; add --dtype bf16")
    if settings.weights == "bf16":
        return None, torch.bfloat16
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(settings.dtype), None


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
        autocast: The type that matrix products are cast to, None for that of the weights.
        weights: The type that inputs are cast to, None where they stay as they are.
        capacity: What did not fit.
    """

    encoder: "Encoder"
    views: "Sequence[View]"
    device: "torch.device"
    finish: Callable[[Rows], Rows] = dict
    autocast: "torch.dtype | None" = None
    weights: "torch.dtype | None" = None
    capacity: Capacity = field(default_factory=Capacity)

    def run(self, batch: HostBatch) -> Rows:
        """Return the rows of every view for one batch, on the device."""
        import torch

        from repalign.models.capture import Batch, encode, flatten_positions

        # copies wait for nothing where their memory is pinned
        send = partial(torch.Tensor.to, device=self.device, non_blocking=True)
        inputs = self.finish({key: send(value) for key, value in batch.inputs.items()})
        lengths = None if batch.lengths is None else send(batch.lengths)
        tokens = None
        if batch.positions is not None:
            samples, positions = flatten_positions(batch.positions)
            tokens = send(samples), send(positions)
        if self.weights is not None:
            inputs = {
                key: value.to(self.weights) if value.is_floating_point() else value
                for key, value in inputs.items()
            }
        on_device = Batch(inputs, lengths, tokens)
        return encode(self.encoder, self.views, on_device, autocast=self.autocast)

    def run_fitting(self, batch: HostBatch) -> Iterator[tuple[HostBatch, Rows]]:
        """Run a batch, or its halves where memory is too small.

        All later batches of that size are halved too.

        Raises ModelError when a single sample does not fit.
        """
        import torch

        from repalign.models.encoder import is_out_of_memory

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


def check_batch_invariance(runner: Runner, together: HostBatch, alone: Sequence[HostBatch]) -> None:
    """Run samples together, again, and each alone, in the type of the weights.

    Raises ModelError for a view whose rows differ from pass to pass, or with the other samples
    of a batch.
    """
    import torch

    plain = replace(runner, autocast=None)
    tolerance = _TOLERANCE if runner.weights is None else _BF16_TOLERANCE
    rows = plain.run(together)
    random = "other rows at every pass: it drops or masks at random"
    _compare(rows, plain.run(together), tolerance, random)
    single = [plain.run(batch) for batch in alone]
    _compare(
        rows,
        {key: torch.cat([part[key] for part in single]) for key in rows},
        tolerance,
        "a sample other rows in a batch than alone: they would depend on the batch",
    )


def _compare(rows: Rows, repeated: Rows, tolerance: float, problem: str) -> None:
    for key, values in rows.items():
        difference = (repeated[key] - values).abs().max()
        gap = float(difference / values.square().mean().sqrt()) if difference else 0.0
        # what is not a number is refused later, with the sample that it belongs to
        if gap > tolerance:
            raise ModelError(
                f"the layer {key!r} gives {problem} (by {gap:.2g} of their size); choose another"
            )
