"""A layer whose rows depend on the batch, or on chance, is refused before the first shard."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError
from repalign.extraction.run import extract
from repalign.extraction.settings import ExtractSettings
from repalign.models.encoder import Encoder
from repalign.models.load import load_encoder


class Mixing(nn.Module):
    """Mixes something into what its inner module gives."""

    def __init__(self, inner: nn.Module, kind: str) -> None:
        super().__init__()
        self.inner = inner
        self.kind = kind

    def forward(self, hidden: Tensor, *more: Any, **named: Any) -> Any:
        import torch

        states = self.inner(hidden, *more, **named)
        if self.kind == "random":
            return states * torch.rand_like(states)
        return states - states.mean(0, keepdim=True)  # as a norm over the batch does


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("random", "'final' .*every pass"),
        ("batch", "'final' .*batch than alone"),
    ],
)
@pytest.mark.parametrize("family", ["bert", "vit"])
def test_rows_that_depend_on_anything_else_are_refused(
    tiny: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    family: str,
    kind: str,
    message: str,
) -> None:
    directory = tiny.save_transformers(tmp_path / family, family)
    data = tmp_path / ("a.txt" if family == "bert" else "a.npy")
    if family == "bert":
        data.write_text("\n".join(tiny.TEXTS))
    else:
        np.save(data, np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8))

    def load(name: str, **options: Any) -> Encoder:
        encoder = load_encoder(name, **options)
        if family == "bert":
            layers: Any = encoder.module.get_submodule("encoder.layer")
            layers[2] = Mixing(layers[2], kind)
        else:
            encoder.module.layernorm = Mixing(encoder.module.get_submodule("layernorm"), kind)
        return encoder

    settings = ExtractSettings(
        str(directory), str(data), tmp_path / "a.h5", layers=("final", "0"), limit=3
    )
    extract(settings)
    (tmp_path / "a.h5").unlink()
    monkeypatch.setattr("repalign.models.load.load_encoder", load)
    with pytest.raises(ModelError, match=message):
        extract(settings)
    assert not list(tmp_path.glob("a.h5*"))


@pytest.mark.parametrize("texts", [["the cat sat on a mat"], ["the cat", "a bird", "rain fell"]])
def test_a_text_model_that_sees_padding_is_refused_whatever_the_texts(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str]
) -> None:
    from dataclasses import replace

    directory = tiny.save_transformers(tmp_path / "bert", "bert")
    data = tmp_path / "a.txt"
    data.write_text("\n".join(texts))
    settings = ExtractSettings(str(directory), str(data), tmp_path / "a.h5", pools=("token",))
    extract(settings)

    def load(name: str, **options: Any) -> Encoder:
        return replace(load_encoder(name, **options), needs_mask=False)

    monkeypatch.setattr("repalign.models.load.load_encoder", load)
    with pytest.raises(ModelError, match="batch than alone"):
        extract(replace(settings, output=tmp_path / "b.h5"))


def test_nothing_is_left_behind_of_a_refused_extraction(tiny: ModuleType, tmp_path: Path) -> None:
    directory = tiny.save_transformers(tmp_path / "neox", "gpt_neox")
    for path in directory.glob("tokenizer*"):
        path.unlink()
    data = tmp_path / "a.txt"
    data.write_text("the cat\n")
    with pytest.raises((ModelError, InputError), match="no tokenizer in neox"):
        extract(ExtractSettings(str(directory), str(data), tmp_path / "o.h5"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "neox"]
