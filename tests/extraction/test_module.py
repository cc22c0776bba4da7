"""One's own module: rows, identity, record, going on, and refusals."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler, TensorDataset

import repalign
from repalign.exceptions import InputError, ModelError, StoreError
from repalign.store import open_store


class Small(nn.Module):
    """A stem, three blocks and a head, with an operation in place."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(6, 6, 3, padding=1) for _ in range(3))
        self.norm = nn.BatchNorm2d(6)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(6, 4)
        self.passes = 0

    def forward(self, images: Tensor) -> Tensor:
        self.passes += 1
        hidden = self.stem(images)
        for block in self.blocks:
            hidden = hidden + block(hidden)
            hidden.relu_()
        hidden = self.drop(self.norm(hidden)).mean((2, 3))
        return self.head(hidden)


def data_of(count: int = 50) -> tuple[Tensor, TensorDataset]:
    images = torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return images, TensorDataset(images, torch.arange(count))


def small() -> Small:
    torch.manual_seed(0)
    return Small()


def test_rows_of_any_module_with_their_identity_and_record(tmp_path: Path) -> None:
    module, (images, data) = small(), data_of()
    module.train()
    ids = [f"s{k}" for k in range(50)]
    result = repalign.extract(
        module, data, output=tmp_path / "a.h5", ids=ids, layers=["final", "1", "norm"],
        batch_size=7, code_version="abc",
    )  # fmt: skip
    assert module.training, "given back as it was"
    assert result.n_rows == result.samples == 50
    module.eval()
    with torch.no_grad():
        first = module.blocks[0](module.stem(images)).mean((2, 3))
        expected = module(images)
    with open_store(tmp_path / "a.h5") as store:
        assert set(store.views) == {"final", "block-1", "norm"}
        np.testing.assert_allclose(store.view("final").read(0, 50), expected, atol=1e-5)
        np.testing.assert_allclose(store.view("block-1").read(0, 50), first, atol=1e-5)
        index, model = store.index.slice(0, 50), store.info.spec["model"]
    assert index.ids is not None
    assert index.ids.tolist() == [text.encode() for text in ids]
    assert index.sample.tolist() == list(range(50))
    assert len({bytes(sha) for sha in index.sample_sha}) == 50
    assert model["class"].endswith("test_module.Small")
    assert len(model["file_sha256"]["parameters"]) == 64
    assert model["file_sha256"]["code"] == "abc"


def test_it_goes_on_where_it_stopped_and_refuses_other_weights(tmp_path: Path) -> None:
    module, (_, data) = small(), data_of(3000)
    loader = DataLoader(data, batch_size=500)
    options: dict[str, Any] = {"output": tmp_path / "a.h5"}
    torn = [batch if k < 4 else None for k, batch in enumerate(loader)]
    with pytest.raises(InputError, match=r"batch 4 .*NoneType"):
        repalign.extract(module, torn, **options)
    assert not (tmp_path / "a.h5").exists()
    whole = repalign.extract(module, loader, **options)
    assert whole.n_rows == 3000
    module.passes = 0
    again = repalign.extract(module, loader, **options)
    assert again.rows_new == 0
    assert again.fingerprint == whole.fingerprint
    assert module.passes < 10, "only the first batch is tried"
    with torch.no_grad():
        module.head.bias += 1
    with pytest.raises((InputError, StoreError), match="parameters"):
        repalign.extract(module, loader, **options)


def test_dictionaries_of_padded_texts(tiny: ModuleType, tmp_path: Path) -> None:
    whole: Any = tiny.build_transformers("bert")
    ids = torch.randint(1, tiny.VOCABULARY, (6, 9), generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([9, 2, 5, 9, 1, 7])
    mask = (torch.arange(9)[None] < lengths[:, None]).long()
    batches = [{"input_ids": ids[:4], "attention_mask": mask[:4]},
               {"input_ids": ids[4:], "attention_mask": mask[4:]}]  # fmt: skip
    with torch.no_grad():
        alone = [
            whole(input_ids=i[None, :n]).last_hidden_state[0]
            for i, n in zip(ids, lengths, strict=True)
        ]
    repalign.extract(whole, batches, output=tmp_path / "mean.h5")
    repalign.extract(whole, batches, output=tmp_path / "token.h5", pools=["token"])
    with open_store(tmp_path / "mean.h5") as store:
        rows = store.view("final").read(0, 6)
    np.testing.assert_allclose(rows, torch.stack([s.mean(0) for s in alone]), atol=1e-5)
    with open_store(tmp_path / "token.h5") as store:
        assert len(store) == int(lengths.sum())
        rows, index = store.view("final").read(0, len(store)), store.index.slice(0, len(store))
    np.testing.assert_allclose(rows, torch.cat(alone), atol=1e-5)
    assert index.token.tolist() == [k for n in lengths.tolist() for k in range(n)]


class OverBatch(nn.Module):
    """Centres over the batch."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows - rows.mean(0)


class OverTokens(nn.Module):
    """Centres over the tokens, those of the padding among them."""

    def forward(self, rows: Tensor, attention_mask: Tensor) -> Tensor:
        return rows - rows.mean(1, keepdim=True)


class Redrawn(Dataset[Tensor]):
    """Another sample at every look, as with a random crop."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, k: int) -> Tensor:
        if k >= 6:
            raise IndexError(k)
        return torch.randn(3)


def padded(*lengths: int) -> dict[str, Tensor]:
    mask = (torch.arange(5)[None] < torch.tensor(lengths)[:, None]).long()
    return {"rows": torch.randn(len(lengths), 5, 3), "attention_mask": mask}


@pytest.mark.parametrize(
    ("module", "data", "options", "message"),
    [
        (OverBatch(), [torch.randn(4, 3)], {}, "batch than alone"),
        (nn.Identity(), [], {}, "no batches"),
        (nn.Identity(), [torch.randn(4, 3)], {"ids": ["a"]}, "1 ids "),
        (nn.Identity(), [torch.randn(2, 3)], {"ids": list("abc")}, "3 ids for 2 samples"),
        (nn.Identity(), iter([torch.randn(2, 3)]), {}, "iterator"),
        (nn.Identity(), ["text"], {}, "batch 0 .*str"),
        (nn.Identity(), [torch.randn(4, 3)], {"layer": "x"}, "option 'layer'"),
        (nn.Identity(), [torch.randn(4, 3)], {"layers": ["x"]}, "no layer 'x'"),
        (nn.Identity(), [torch.randn(4, 3)], {"pools": ["max"]}, "pools: got max"),
        (
            nn.Identity(),
            DataLoader(TensorDataset(torch.randn(4, 3)), shuffle=True),
            {},
            "shuffles",
        ),
        (
            nn.Identity(),
            DataLoader(data_of(400)[1], sampler=SubsetRandomSampler(range(400))),
            {},
            "other samples",
        ),
        (nn.Identity(), Redrawn(), {}, "other samples"),
        # what the first batch could not show is looked at where it comes
        (
            OverBatch(),
            [torch.randn(1, 3), torch.randn(4, 3)],
            {},
            "batch than alone",
        ),
        (OverTokens(), [padded(5, 5), padded(5, 2)], {}, "batch than alone"),
        (OverTokens(), [padded(5, 5, 5, 2)], {}, "batch than alone"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    tmp_path: Path, module: nn.Module, data: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((InputError, ModelError), match=message):
        repalign.extract(module, data, output=tmp_path / "a.h5", **options)
    with pytest.raises(InputError, match="data and output"):
        repalign.extract(module, data)  # type: ignore[call-overload]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_a_module_in_bfloat16_gives_float32_rows(tmp_path: Path) -> None:
    module = nn.Linear(4, 3).bfloat16()
    rows = torch.randn(5, 4).bfloat16()
    repalign.extract(module, [rows], output=tmp_path / "a.h5")
    with torch.no_grad():
        expected = module(rows).float()
    with open_store(tmp_path / "a.h5") as store:
        np.testing.assert_allclose(store.view("final").read(0, 5), expected, rtol=1e-2)


@pytest.mark.parametrize(("ids", "name"), [(None, "17"), ([f"s{k}" for k in range(30)], "s17")])
def test_activations_that_are_not_finite_are_told_with_their_sample(
    ids: list[str] | None, name: str, tmp_path: Path
) -> None:
    data = torch.ones(30, 4)
    data[17] = -1
    with pytest.raises(ModelError, match=f"view final for sample {name};"):
        repalign.extract(Logarithm(), data.split(8), output=tmp_path / "a.h5", ids=ids)


class Logarithm(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        return rows.log()


@pytest.mark.parametrize(
    ("module", "data", "name"),
    [("x", [torch.randn(2, 3)], "source"), (3, [], "source"), (nn.Identity(), 3, "data")],
)
def test_what_is_no_module_and_no_batches_is_named(
    module: Any, data: Any, name: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=f"^{name}: got"):
        repalign.extract(module, data, output=tmp_path / "a.h5")
