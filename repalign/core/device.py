"""Where and how products are computed: arrays, device, threads, and kernels that were measured.

torch takes longer to import than most comparisons take to compute, and numpy multiplies as fast
on a CPU. What is done with arrays of a device (``+``, ``@``, ``.T``, slices) reads alike in both.

Small problems get one thread: pools of threads wait by spinning. On cores that something else uses
as well, every small product then waits for a thread that does not run: comparing 3000 × 20 rows
took 24 s with two threads on two busy cores, and 3 s with one.
"""

import contextlib
import ctypes
import functools
import operator
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from repalign.exceptions import InputError
from repalign.process_state import Setting, holding

# A numpy array on the CPU, else a torch tensor.
DeviceArray = Any


def on_device(values: np.ndarray, device: str, *, copy: bool = False) -> DeviceArray:
    """Return values in double precision on a device; ``copy`` for those that will be changed."""
    if device == "cpu":
        return np.array(values, dtype=np.float64, copy=True if copy else None)
    import torch

    return torch.from_numpy(values).to(device=device, dtype=torch.float64, copy=copy)


def zeros(shape: tuple[int, ...], device: str) -> DeviceArray:
    """Return zeros in double precision on a device."""
    if device == "cpu":
        return np.zeros(shape)
    import torch

    return torch.zeros(shape, dtype=torch.float64, device=device)


def numbers_on(values: np.ndarray, device: str) -> DeviceArray:
    """Return whole numbers that choose rows or columns on a device."""
    if device == "cpu":
        return values
    import torch

    return torch.from_numpy(values).to(device)


def row_norms(rows: DeviceArray) -> np.ndarray:
    """Return the lengths of rows, as an array of numpy."""
    if isinstance(rows, np.ndarray):
        return np.sqrt(np.einsum("ij,ij->i", rows, rows))
    import torch

    return torch.linalg.vector_norm(rows, dim=1).cpu().numpy()


def as_numpy(values: DeviceArray) -> np.ndarray:
    """Return an array of numpy."""
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()


# Multiplications of one pass over the rows; one core does these in some tens of milliseconds.
SMALL_PASS = 1e9


def is_small(n_rows: int, *dims: int) -> bool:
    """Tell whether a pass over rows of these widths is too small to share between threads."""
    return n_rows * max(dims) ** 2 < SMALL_PASS


@contextlib.contextmanager
def threads_held(number: int) -> Iterator[None]:
    """Hold numpy and torch at so many threads inside the block, and as many as before outside.

    torch is held where it is loaded already: what needs it must import it before.
    """
    with contextlib.ExitStack() as stack:
        torch = sys.modules.get("torch")
        if torch is not None:
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(number)
        # OpenMP counts for every thread on its own, as torch does
        openmp = _libraries(len(sys.modules)).select(user_api="openmp")
        stack.enter_context(openmp.limit(limits=number))
        stack.enter_context(blas_held(number))
        yield


def blas_held(number: int) -> contextlib.AbstractContextManager[None]:
    """Hold the BLAS libraries of numpy and scipy at so many threads inside the block.

    OpenBLAS and torch each keep a pool of threads that spins while it waits; used in turn they
    steal each other's cores, and a loop over both takes twice the time: torch works next to one.
    """
    libraries = _libraries(len(sys.modules)).select(user_api="blas").lib_controllers
    return holding(
        {
            Setting(
                f"threads of {library.filepath}",
                partial(getattr, library, "num_threads"),
                library.set_num_threads,
            ): number
            for library in libraries
        }
    )


@functools.lru_cache(maxsize=1)
def _libraries(n_modules: int) -> Any:
    """Return the libraries that have threads; they are looked for again after every import.

    Finding them takes milliseconds, which every pair of a study need not spend again.
    """
    import threadpoolctl  # not where nothing is computed

    return threadpoolctl.ThreadpoolController()


def one_thread_if(small: bool) -> contextlib.AbstractContextManager[None]:
    """Hold numpy and torch at one thread inside the block where the problem is small."""
    return threads_held(1) if small else contextlib.nullcontext()


_ACCEPTED_ERROR = 3e-6


def choose_device(name: str = "auto") -> str:
    """Return the device to compute on: ``auto`` is the first CUDA device, else the CPU.

    Raises:
        InputError: The device is unknown, not present, or has no double precision.
    """
    if name == "cpu":
        return name
    if name == "auto":
        return "cuda" if _may_have_gpu() and _has_cuda() else "cpu"
    if name.split(":")[0] != "cuda":
        raise InputError(f"device {name!r} is not supported; expected auto, cpu or cuda")
    if not _has_cuda():
        raise InputError(f"device {name!r} is not present; use --device cpu")
    return name


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _may_have_gpu() -> bool:
    """Tell whether a driver is there, without torch, whose import takes longer than most work."""
    if Path("/dev/kfd").exists():  # AMD's, which torch calls cuda as well
        return True
    driver = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
    try:
        ctypes.CDLL(driver)
    except OSError:
        return False
    return True


def thread_count() -> int:
    """Return the number of threads that products use."""
    import threadpoolctl

    pools = threadpoolctl.threadpool_info()
    return max((pool["num_threads"] for pool in pools if pool["user_api"] == "blas"), default=1)


def one_pool(device: str) -> contextlib.AbstractContextManager[None]:
    """Let one pool of threads work: numpy's where arrays are numpy's, else torch's."""
    return contextlib.nullcontext() if device == "cpu" else blas_held(1)


def _float32_precision(operation: str) -> Setting:
    """Return how torch multiplies float32 in operations such as ``mkldnn.matmul``.

    Only ``fp32_precision`` is used: torch refuses the older functions once it was set by anyone.
    """
    import torch

    settings = operator.attrgetter(operation)(torch.backends)
    write = partial(setattr, settings, "fp32_precision")

    def read() -> str:
        effective: str = settings.fp32_precision
        # a value that is inherited reads like one that was set; it is restored as inherited
        write("none")
        return "none" if settings.fp32_precision == effective else effective

    return Setting(f"float32 of {operation}", read, write)


_CPU_PRODUCTS = "mkldnn.matmul"
_CUDA_OPERATIONS = ("cuda.matmul", "cudnn.conv", "cudnn.rnn")
_OPERATIONS = (_CPU_PRODUCTS, "mkldnn.conv", "mkldnn.rnn", *_CUDA_OPERATIONS)


@contextlib.contextmanager
def exact_float32(*, tf32: bool = False) -> Iterator[None]:
    """Keep products of float32 in float32 inside the block; ``tf32`` allows CUDA that type."""
    precisions = dict.fromkeys(_OPERATIONS, "ieee")
    if tf32:
        precisions |= dict.fromkeys(_CUDA_OPERATIONS, "tf32")
    with holding({_float32_precision(name): value for name, value in precisions.items()}):
        yield


def _medium_products() -> contextlib.AbstractContextManager[None]:
    """Let the CPU multiply float32 as torch's precision ``medium`` does."""
    return holding({_float32_precision(_CPU_PRODUCTS): "bf16"})


@dataclass(frozen=True)
class MatmulKernels:
    """Which fast kernels this machine may use; a property of the machine, not of its load.

    Attributes:
        medium_is_exact: Precision ``medium`` still multiplies in full single precision.
        has_bfloat16: Products of bfloat16 have their own instructions.
    """

    medium_is_exact: bool
    has_bfloat16: bool


@functools.cache
def matmul_kernels(device: str = "cpu") -> MatmulKernels:
    """Return which kernels serve the products of this process.

    On processors where MKL does not use the widest instructions, precision ``medium`` sends the
    product to oneDNN, which is twice as fast and as exact; on processors with AMX, the same
    setting really multiplies in bfloat16. Only the error of a product tells them apart. Nothing
    is timed, so that the choice, and with it every rounding, is the same in every run.
    """
    import torch

    if device != "cpu":
        return MatmulKernels(medium_is_exact=False, has_bfloat16=torch.cuda.is_bf16_supported())
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(512, 512, generator=generator)
    b = torch.randn(512, 512, generator=generator)
    with blas_held(1), _medium_products():
        product = a @ b
    exact = a.double() @ b.double()
    error = float((product - exact).abs().max() / exact.abs().max())
    # Older releases do not report it: then bfloat16 counts as slow.
    ask = getattr(torch.cpu, "get_capabilities", None)
    capabilities: Mapping[str, object] = ask() if ask is not None else {}
    return MatmulKernels(
        medium_is_exact=error < _ACCEPTED_ERROR,
        has_bfloat16=bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")),
    )


@contextlib.contextmanager
def fast_float32(device: str) -> Iterator[None]:
    """Use the fastest exact single-precision kernels inside the block, one pool of threads."""
    with blas_held(1):
        if device == "cpu" and matmul_kernels().medium_is_exact:
            with _medium_products():
                yield
        else:
            yield


@contextlib.contextmanager
def lane_threads(lanes: int) -> Iterator[Callable[[], None]]:
    """Share torch's threads out among lanes of work inside the block.

    Yields what every lane calls first. What is set for the whole process (precision, numpy's
    threads) is set here once: lanes that set it each would undo it for one another.
    """
    import torch

    before = torch.get_num_threads()
    share = max(before // lanes, 1)
    with fast_float32("cpu"):
        torch.set_num_threads(share)
        try:
            yield lambda: torch.set_num_threads(share)
        finally:
            torch.set_num_threads(before)
            return_free_memory()


def return_free_memory() -> None:
    """Give back to the system what was freed; glibc keeps it, for each thread on its own."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
