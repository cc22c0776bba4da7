"""Arrays where they are computed: numpy on the CPU, torch on any other device.

torch takes longer to import than most comparisons take to compute, and numpy multiplies as fast
on a CPU. What is done with these arrays (``+``, ``@``, ``.T``, slices) reads alike in both.
"""

from typing import Any

import numpy as np

# A numpy array on the CPU, else a torch tensor.
DeviceArray = Any


def is_cpu(device: str) -> bool:
    """Tell whether arrays of a device are those of numpy."""
    return device == "cpu"


def on_device(values: np.ndarray, device: str, *, copy: bool = False) -> DeviceArray:
    """Return values in double precision on a device; ``copy`` for those that will be changed."""
    if is_cpu(device):
        return np.array(values, dtype=np.float64, copy=True if copy else None)
    import torch

    return torch.from_numpy(values).to(device=device, dtype=torch.float64, copy=copy)


def zeros(shape: tuple[int, ...], device: str) -> DeviceArray:
    """Return zeros in double precision on a device."""
    if is_cpu(device):
        return np.zeros(shape)
    import torch

    return torch.zeros(shape, dtype=torch.float64, device=device)


def numbers_on(values: np.ndarray, device: str) -> DeviceArray:
    """Return whole numbers that choose rows or columns on a device."""
    if is_cpu(device):
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
