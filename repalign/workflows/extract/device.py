"""The device that runs the model: chosen openly, filled by pinned copies, never replaced."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from repalign.exceptions import InputError
from repalign.workflows.extract.plan import read_local_rank

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# BatchRows of one batch by view.
BatchRows = Mapping[str, "Tensor"]


def choose_device(name: str) -> "torch.device":
    """Return the device of that name; ``auto`` takes CUDA, then MPS, then the CPU.

    Without a number, processes of torchrun or Slurm take the CUDA devices of a machine in turn.

    Raises InputError for a name that is none and for a device that is not there.
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


def send(tensor: "Tensor", device: "torch.device") -> "Tensor":
    """Copy a host tensor to the device, without waiting where that is possible."""
    if device.type == "cuda" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _fetch(rows: BatchRows) -> tuple[BatchRows, Any]:
    """Start copies into pinned memory; the event is over when they are."""
    import torch

    fetched = {}
    for key, row in rows.items():
        host = torch.empty(row.shape, dtype=row.dtype, pin_memory=True)
        fetched[key] = host.copy_(row, non_blocking=True)
    event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    # of the device that copies, which need not be the current one
    event.record(torch.cuda.current_stream(next(iter(rows.values())).device))
    return fetched, event


class Fetcher:
    """Brings rows back to the host one batch behind, so that the device never waits.

    A copy from CUDA runs while the next batch is computed and is handed out only after its
    event: read earlier it would hold wrong numbers. On other devices rows come at once.
    """

    def __init__(self) -> None:
        self._pending: deque[tuple[Any, BatchRows, Any]] = deque()

    def put(self, tag: Any, rows: BatchRows) -> None:
        """Start bringing back the rows of a batch."""
        if any(row.device.type == "cuda" for row in rows.values()):
            self._pending.append((tag, *_fetch(rows)))
        else:
            self._pending.append((tag, {key: row.cpu() for key, row in rows.items()}, None))

    def ready(self, *, flush: bool = False) -> Iterator[tuple[Any, BatchRows]]:
        """Hand out finished batches with their tags; all of them with ``flush``."""
        while self._pending and (flush or self._pending[0][2] is None or len(self._pending) > 1):
            tag, rows, event = self._pending.popleft()
            if event is not None:
                event.synchronize()
            yield tag, rows
