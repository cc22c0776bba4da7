import numpy as np
import pytest
import threadpoolctl
import torch
from numpy.testing import assert_allclose

from repalign.core.device import (
    blas_held,
    choose_device,
    fast_float32,
    matmul_kernels,
    thread_count,
)
from repalign.exceptions import InputError


def blas_threads() -> set[int]:
    found = threadpoolctl.threadpool_info()
    return {pool["num_threads"] for pool in found if pool["user_api"] == "blas"}


def test_one_pool_of_threads_inside_and_the_old_ones_after() -> None:
    before = blas_threads()
    with blas_held(1):
        assert blas_threads() <= {1}
    assert blas_threads() == before
    assert thread_count() == torch.get_num_threads()


def test_fast_products_are_exact_and_leave_no_trace() -> None:
    before = torch.get_float32_matmul_precision()
    a = torch.randn(300, 300, generator=torch.Generator().manual_seed(0))
    with fast_float32("cpu"):
        product = a @ a
    exact = a.double() @ a.double()
    assert_allclose(product, exact, atol=3e-6 * float(exact.abs().max()))
    assert torch.get_float32_matmul_precision() == before


def test_the_choice_of_kernels_is_the_same_every_time() -> None:
    first = matmul_kernels("cpu")
    matmul_kernels.cache_clear()
    assert matmul_kernels("cpu") == first


def test_products_of_bfloat16_are_summed_in_single_precision() -> None:
    # The bounds of the diameter rest on it.
    a = torch.randn(64, 4096, generator=torch.Generator().manual_seed(0)).bfloat16()
    a = (a / torch.linalg.vector_norm(a.float(), dim=1, keepdim=True)).bfloat16()
    exact = a.double() @ a.double().T
    error = np.abs((a @ a.T).double().numpy() - exact.numpy())
    assert np.all(error <= 2.0**-8 * np.abs(exact.numpy()) + 4096 * 2.0**-23)


def test_devices_by_name() -> None:
    assert choose_device("cpu") == "cpu"
    assert choose_device("auto") in {"cpu", "cuda"}
    with pytest.raises(InputError, match=r"'tpu'.* auto, cpu"):
        choose_device("tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is present")
def test_an_absent_device_is_refused() -> None:
    with pytest.raises(InputError, match=r"'cuda'.* --device cpu"):
        choose_device("cuda")
