"""Where and how products are computed: device, threads, and the kernels that were measured."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import threadpoolctl
import torch

from repalign.exceptions import InputError

_ACCEPTED_ERROR = 3e-6


def choose_device(name: str = "auto") -> str:
    """Return the device to compute on: ``auto`` is the first CUDA device, else the CPU.

    Raises:
        InputError: The device is unknown, not present, or has no double precision.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return name
    if name.split(":")[0] != "cuda":
        raise InputError(f"device {name!r} is not supported; expected auto, cpu or cuda")
    if not torch.cuda.is_available():
        raise InputError(f"device {name!r} is not present; use --device cpu")
    return name


def thread_count() -> int:
    """Return the number of threads that products use."""
    return torch.get_num_threads()


@contextlib.contextmanager
def torch_threads_only() -> Iterator[None]:
    """Hold numpy's BLAS at one thread inside the block.

    OpenBLAS and torch each keep a pool of threads that spins while it waits; used in turn they
    steal each other's cores, and a loop over both takes twice the time.
    """
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        yield


@dataclass(frozen=True)
class MatmulProbe:
    """What a short measurement found about single-precision products on this machine.

    Attributes:
        medium_is_exact: Precision ``medium`` still multiplies in full single precision.
        medium_speedup: Time of precision ``highest`` over time of ``medium``.
        bfloat16_speedup: Time of the faster of the two over time of a bfloat16 product.
    """

    medium_is_exact: bool
    medium_speedup: float
    bfloat16_speedup: float

    @property
    def use_medium(self) -> bool:
        """Whether ``medium`` is worth using: as exact, and clearly faster."""
        return self.medium_is_exact and self.medium_speedup > 1.1

    @property
    def use_bfloat16(self) -> bool:
        """Whether bfloat16 products are clearly faster than single precision."""
        return self.bfloat16_speedup > 1.3


def _seconds(product: Callable[[], torch.Tensor]) -> float:
    product()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        product()
        times.append(time.perf_counter() - start)
    return min(times)


@contextlib.contextmanager
def _float32_precision(name: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@functools.cache
def probe_matmul() -> MatmulProbe:
    """Measure, once per process, which kernels serve single-precision products best.

    On processors where MKL does not use the widest instructions, precision ``medium`` sends the
    product to oneDNN, which is twice as fast and as exact; on processors with AMX, the same
    setting really multiplies in bfloat16. Only a measurement of the error tells them apart.
    """
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(4096, 512, generator=generator)
    b = torch.randn(512, 512, generator=generator)
    with torch_threads_only():
        with _float32_precision("highest"):
            slow = _seconds(lambda: a @ b)
        with _float32_precision("medium"):
            fast = _seconds(lambda: a @ b)
            product = a @ b
        half_a, half_b = a.bfloat16(), b.bfloat16()
        half = _seconds(lambda: half_a @ half_b)
    exact = a[:512].double() @ b.double()
    error = float((product[:512] - exact).abs().max() / exact.abs().max())
    return MatmulProbe(
        medium_is_exact=error < _ACCEPTED_ERROR,
        medium_speedup=slow / fast,
        bfloat16_speedup=min(slow, fast) / half,
    )


@contextlib.contextmanager
def fast_float32(device: str) -> Iterator[None]:
    """Use the fastest exact single-precision kernels inside the block, one pool of threads."""
    with torch_threads_only():
        if device == "cpu" and probe_matmul().use_medium:
            with _float32_precision("medium"):
                yield
        else:
            yield
