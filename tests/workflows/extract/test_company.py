"""A layer whose rows are not the sample's own is refused before the first shard."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repalign.exceptions import ModelError
from repalign.models.loaders.load import load_model
from repalign.models.views.views import make_views
from repalign.workflows.extract.company import check_company, image_samples, text_samples
from repalign.workflows.extract.run import extract
from repalign.workflows.extract.runner import BatchRunner
from repalign.workflows.extract.settings import ExtractSettings


class Social(nn.Module):
    """Mixes something into what its inner module gives."""

    def __init__(self, inner: nn.Module, kind: str) -> None:
        super().__init__()
        self.inner = inner
        self.kind = kind

    def forward(self, hidden: Tensor, *more: Any, **named: Any) -> Any:
        given = self.inner(hidden, *more, **named)
        if self.kind == "random":
            return given * torch.rand_like(given)
        return given - given.mean(0, keepdim=True)  # as a norm over the batch does


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("random", "the layer 'final' gives other rows at every pass: it drops or masks at random"),
        ("company", "the layer 'final' gives a sample other rows in a batch than alone"),
    ],
)
@pytest.mark.parametrize("family", ["bert", "vit"])
def test_rows_that_depend_on_anything_else_are_refused(
    tiny: ModuleType, tmp_path: Path, family: str, kind: str, message: str
) -> None:
    model: Any = load_model(str(tiny.save_transformers(tmp_path / family, family)))
    views = make_views(model, ("final", "0"))
    runner = BatchRunner(model, views, torch.device("cpu"))
    if family == "bert":
        from repalign.models.inputs.text import load_text_encoder

        samples = text_samples(load_text_encoder(model), masked=True, unpooled=False)
        layer = model.module.encoder.layer
        check_company(runner, *samples)
        layer[2] = Social(layer[2], kind)
    else:
        samples = image_samples(3, (32, 32), None)
        check_company(runner, *samples)
        model.module.layernorm = Social(model.module.layernorm, kind)
    with pytest.raises(ModelError, match=message):
        check_company(runner, *samples)


def test_a_text_model_that_sees_padding_is_refused(tiny: ModuleType, tmp_path: Path) -> None:
    from repalign.models.inputs.text import load_text_encoder

    model = load_model(str(tiny.save_transformers(tmp_path / "bert", "bert")))
    runner = BatchRunner(model, make_views(model, (), ("token",)), torch.device("cpu"))
    encoder = load_text_encoder(model)
    check_company(runner, *text_samples(encoder, masked=True, unpooled=True))
    with pytest.raises(ModelError, match="other rows in a batch than alone"):
        check_company(runner, *text_samples(encoder, masked=False, unpooled=True))


def test_nothing_is_left_behind_of_a_refused_extraction(tiny: ModuleType, tmp_path: Path) -> None:
    directory = tiny.save_transformers(tmp_path / "neox", "gpt_neox")
    for path in directory.glob("tokenizer*"):
        path.unlink()
    data = tmp_path / "a.txt"
    data.write_text("the cat\n")
    with pytest.raises(ModelError, match="no tokenizer in neox"):
        extract(ExtractSettings(str(directory), str(data), tmp_path / "o.h5"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "neox"]
