"""Parts of sentence-transformers that do not belong together."""

import pytest
import torch
from torch import nn

from repalign.exceptions import ModelError
from repalign.models.composed.sentence_parts import Dense, Norm


@pytest.mark.parametrize(
    "part",
    [
        Dense(4, 2, bias=True, activation="torch.nn.modules.linear.Identity"),
        Norm(4),
    ],
    ids=["dense", "norm"],
)
def test_a_part_of_another_width_is_refused(part: nn.Module) -> None:
    assert part(torch.zeros(1, 4)).shape[0] == 1
    with pytest.raises(ModelError, match="4 columns"):
        part(torch.zeros(1, 3))
