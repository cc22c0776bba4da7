"""One thread for small problems: sharing them out costs more than it saves.

Pools of threads wait by spinning. On cores that something else uses as well, every small
product then waits for a thread that does not run: comparing 3000 × 20 rows took 24 s with two
threads on two busy cores, and 3 s with one.
"""

import contextlib
import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import threadpoolctl

from repalign.process_state import Setting, holding

# Multiplications of one pass over the rows; one core does these in some tens of milliseconds.
SMALL_PASS = 1e9


@dataclass(frozen=True)
class _BlasThreads(Setting):
    """Number of threads of one BLAS library, which all threads of the process share."""

    path: str
    library: Any = field(compare=False)

    def read(self) -> Any:
        return self.library.num_threads

    def write(self, value: Any) -> None:
        self.library.set_num_threads(value)


def is_small(n_rows: int, *dims: int) -> bool:
    """Tell whether a pass over rows of these widths is too small to share between threads."""
    return n_rows * max(dims) ** 2 < SMALL_PASS


def one_thread() -> contextlib.AbstractContextManager[None]:
    """Hold numpy and torch at one thread inside the block, and as many as before outside.

    torch is held where it is loaded already: what needs it must import it before.
    """
    return threads_held(1)


@contextlib.contextmanager
def threads_held(number: int) -> Iterator[None]:
    """Hold numpy and torch at so many threads inside the block, as ``one_thread`` does at one."""
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
    """Hold the BLAS libraries of numpy and scipy at so many threads inside the block."""
    libraries = _libraries(len(sys.modules)).select(user_api="blas").lib_controllers
    return holding({_BlasThreads(found.filepath, found): number for found in libraries})


@functools.lru_cache(maxsize=1)
def _libraries(n_modules: int) -> threadpoolctl.ThreadpoolController:
    """Return the libraries that have threads; they are looked for again after every import.

    Finding them takes milliseconds, which every pair of a study need not spend again.
    """
    return threadpoolctl.ThreadpoolController()


def one_thread_if(small: bool) -> contextlib.AbstractContextManager[None]:
    """Hold numpy and torch at one thread inside the block where the problem is small."""
    return one_thread() if small else contextlib.nullcontext()
