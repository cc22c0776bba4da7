"""A map gives rows back as what they came as."""

import re

import numpy as np
import pandas as pd
import pytest
import torch

from repalign import AffineMap, InputError

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((5, 3))
DENSE = AffineMap("linear", RNG.standard_normal((3, 4)), RNG.standard_normal(4))
SWAP = AffineMap("permutation", np.eye(3)[:, ::-1] * [1, -1, 1], np.arange(3.0))
each_map = pytest.mark.parametrize("fitted", [DENSE, SWAP], ids=lambda each: each.kind)


def expected(fitted: AffineMap, rows: np.ndarray) -> np.ndarray:
    return rows.astype(np.float64) @ fitted.matrix + fitted.shift


@each_map
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_tensor_stays_a_tensor_of_its_type(fitted: AffineMap, dtype: torch.dtype) -> None:
    rows = torch.from_numpy(ROWS).to(dtype)
    got = fitted.apply(rows)
    assert got.dtype == dtype
    wanted = torch.from_numpy(expected(fitted, rows.double().numpy())).to(dtype)
    torch.testing.assert_close(got, wanted)


@each_map
def test_gradients_pass_and_the_rows_are_left_alone(fitted: AffineMap) -> None:
    rows = torch.from_numpy(ROWS.copy()).requires_grad_()
    fitted.apply(rows).sum().backward()
    wanted = np.tile(fitted.matrix.sum(axis=1), (5, 1))
    np.testing.assert_allclose(rows.grad.numpy(), wanted, atol=1e-12)
    np.testing.assert_array_equal(rows.detach().numpy(), ROWS)


@each_map
@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64"])
def test_a_frame_keeps_its_index_and_its_type(fitted: AffineMap, dtype: str) -> None:
    frame = pd.DataFrame(ROWS, index=list("abcde"), columns=["x", "y", "z"]).astype(dtype)
    got = fitted.apply(frame)
    assert list(got.index) == list("abcde")
    assert list(got.columns) == list(range(fitted.target_dim))
    assert set(got.dtypes) == {np.dtype(dtype.lower())}
    np.testing.assert_allclose(got, expected(fitted, ROWS), rtol=1e-5)


@each_map
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_array_keeps_its_type(fitted: AffineMap, dtype: type) -> None:
    got = fitted.apply(ROWS.astype(dtype))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, expected(fitted, ROWS.astype(dtype)).astype(dtype))


def test_whole_numbers_are_not_cut_off() -> None:
    whole = np.arange(6).reshape(2, 3)
    wanted = expected(DENSE, whole)
    np.testing.assert_allclose(DENSE.apply(whole), wanted)
    np.testing.assert_allclose(DENSE.apply(whole.tolist()), wanted)
    np.testing.assert_allclose(DENSE.apply(torch.from_numpy(whole)).numpy(), wanted)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (ROWS[:, :2], "2 columns.* 3"),
        (torch.zeros(5, 2), "2 columns"),
        (pd.DataFrame(ROWS[:, :2]), "2 columns"),
        (ROWS[0], "shape"),
        (torch.zeros(3), "shape"),
        (torch.zeros(5, 3).to_sparse(), "torch.sparse_coo"),
        (torch.zeros(5, 3, dtype=torch.complex64), "torch.complex64"),
        (pd.DataFrame({"a": [1.0], "b": ["x"], "c": [2.0]}), "'b'"),
        (np.array([["a", "b", "c"]]), "<U1"),
        ([[1, 2, 3], [4]], "list"),
        ("x.npy", "shape"),
        (None, "shape"),
    ],
)
def test_what_is_no_matrix_of_that_width_is_refused_in_a_line(rows: object, told: str) -> None:
    with pytest.raises(InputError) as failure:
        DENSE.apply(rows)
    assert re.search(told, str(failure.value))
    assert "\n" not in str(failure.value)
