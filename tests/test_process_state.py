"""State of the process: put back whatever was set before, by whichever thread ends last."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import threadpoolctl
import torch
from huggingface_hub import constants
from transformers.utils import logging as transformers_logging

import repalign
from repalign.core import device
from repalign.core.device import (
    MatmulKernels,
    blas_held,
    exact_float32,
    fast_float32,
    threads_held,
)
from repalign.models.checkpoints import offline_mode
from repalign.models.load import load_encoder

BACKENDS = torch.backends
OPERATIONS = {
    "generic": BACKENDS,
    "cuda.matmul": BACKENDS.cuda.matmul,
    "cudnn": BACKENDS.cudnn,
    "cudnn.conv": BACKENDS.cudnn.conv,
    "mkldnn.matmul": BACKENDS.mkldnn.matmul,
}


def state() -> dict[str, Any]:
    """Return precision, threads, and how the hub and transformers behave."""
    precisions = {name: settings.fp32_precision for name, settings in OPERATIONS.items()}
    pools = {pool["filepath"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    return {
        **precisions,
        **pools,
        "torch": torch.get_num_threads(),
        "offline": constants.HF_HUB_OFFLINE,
        "verbosity": transformers_logging.get_verbosity(),
        "bars": transformers_logging.is_progress_bar_enabled(),
    }


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    with threadpoolctl.threadpool_limits(2):
        yield
    torch.set_num_threads(threads)
    for settings in OPERATIONS.values():
        settings.fp32_precision = "none"


@pytest.fixture
def medium_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = MatmulKernels(medium_is_exact=True, has_bfloat16=False)
    monkeypatch.setattr(device, "matmul_kernels", lambda device="cpu": kernels)


BLOCKS: list[Callable[[], AbstractContextManager[None]]] = [
    lambda: blas_held(1),
    exact_float32,
    lambda: threads_held(1),
    lambda: fast_float32("cpu"),
    offline_mode,
]


@pytest.mark.usefixtures("medium_is_exact")
@pytest.mark.parametrize("first", range(len(BLOCKS)))
@pytest.mark.parametrize("second", range(len(BLOCKS)))
def test_blocks_that_overlap_leave_no_trace(first: int, second: int) -> None:
    before = state()

    def enter(stack: ExitStack, number: int) -> None:
        stack.enter_context(BLOCKS[number]())

    # as calls of two threads do: begun one after the other, ended in the same order
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        stacks = ExitStack(), ExitStack()
        one.submit(enter, stacks[0], first).result()
        two.submit(enter, stacks[1], second).result()
        one.submit(stacks[0].close).result()
        two.submit(stacks[1].close).result()
    assert state() == before


@pytest.mark.usefixtures("medium_is_exact")
def test_the_block_that_began_last_decides_and_the_others_come_back() -> None:
    def products() -> str:
        return BACKENDS.mkldnn.matmul.fp32_precision

    with exact_float32():
        with fast_float32("cpu"):
            assert products() == "bf16"
        assert products() == "ieee"
        assert BACKENDS.cuda.matmul.fp32_precision == "ieee"
        assert BACKENDS.cudnn.conv.fp32_precision == "ieee"


def test_what_was_inherited_is_inherited_afterwards() -> None:
    BACKENDS.fp32_precision = "ieee"
    with exact_float32():
        pass
    BACKENDS.fp32_precision = "tf32"
    assert BACKENDS.cuda.matmul.fp32_precision == "tf32"


@pytest.mark.parametrize(
    ("operation", "value"),
    [("generic", "tf32"), ("cuda.matmul", "tf32"), ("mkldnn.matmul", "bf16"), ("cudnn", "ieee")],
)
def test_calls_work_and_leave_precision_as_the_user_set_it(
    tmp_path: Path, operation: str, value: str
) -> None:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(60, 3))
    expected = repalign.compare(x, x, quick=True).to_frame()
    OPERATIONS[operation].fp32_precision = value
    before = state()
    device.matmul_kernels.cache_clear()
    assert repalign.compare(x, x, quick=True).to_frame().equals(expected)
    repalign.extract(torch.nn.Linear(3, 2), [torch.ones(4, 3)], output=tmp_path / "a.h5")
    assert state() == before


def test_comparing_from_several_threads_leaves_no_trace() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.laplace(size=(2, 60, 3))
    before = state()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: repalign.compare(x, y, quick=True), range(4)))
    assert state() == before


def test_loading_from_several_threads_leaves_no_trace(tiny: ModuleType, tmp_path: Path) -> None:
    directory = str(tiny.save_transformers(tmp_path / "neox", "gpt_neox"))
    before = state()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(load_encoder, [directory] * 4))
    assert state() == before
