"""Rows of a tensor or a frame sent through a map, and given back as what they came as."""

from typing import TYPE_CHECKING, Any

import numpy as np

from repalign.arguments import is_a
from repalign.exceptions import InputError

if TYPE_CHECKING:
    import pandas
    import torch

    from repalign.core.maps.affine import AffineMap


def mapped(values: Any, through: "AffineMap") -> Any:
    """Return mapped rows as they were given: tensor, frame, or an array of anything else.

    Raises:
        InputError: They are no matrix of numbers, or of another width.
    """
    if is_a(values, "torch", "Tensor"):
        return _mapped_tensor(values, through)
    if is_a(values, "pandas", "DataFrame"):
        return _mapped_frame(values, through)
    try:
        return through.apply(np.asarray(values))
    except ValueError as failure:
        if isinstance(failure, InputError):
            raise
        raise InputError(
            f"rows: got {type(values).__name__} that is no matrix of numbers; expected an array, "
            "a tensor or a frame"
        ) from failure


def _mapped_tensor(tensor: "torch.Tensor", through: "AffineMap") -> "torch.Tensor":
    """Compute in double precision where the tensor is; gradients pass."""
    import torch

    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_complex():
        raise InputError(
            f"rows: got a tensor of {tensor.dtype} and {tensor.layout}; expected a dense one of "
            "real numbers"
        )
    through.check_shape(tuple(tensor.shape))
    # Metal has no double precision
    home = torch.device("cpu") if tensor.device.type == "mps" else tensor.device
    rows = tensor.to(device=home, dtype=torch.float64)
    if through.entries is None:
        predicted = rows @ torch.from_numpy(through.matrix).to(home, torch.float64)
    else:
        column, factor = (torch.from_numpy(each).to(home) for each in through.entries)
        predicted = rows[:, column] * factor
    predicted = predicted + torch.from_numpy(through.shift).to(home, torch.float64)
    dtype = tensor.dtype if tensor.is_floating_point() else torch.float64
    return predicted.to(device=tensor.device, dtype=dtype)


def _mapped_frame(frame: "pandas.DataFrame", through: "AffineMap") -> "pandas.DataFrame":
    """Keep the index; the columns are those of another space, and numbered."""
    import pandas

    bad = [
        str(name)
        for name, dtype in zip(frame.columns, frame.dtypes, strict=True)
        if getattr(dtype, "kind", "O") not in "fiub"
    ]
    if bad:
        raise InputError(f"rows: the column {bad[0]!r} holds no numbers; leave it out")
    values = frame.to_numpy()
    if values.dtype.kind == "O":  # numbers of which some may be missing
        values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return pandas.DataFrame(through.apply(values), index=frame.index)
