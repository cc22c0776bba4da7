"""Directories of sentence-transformers: the sentence's vector as that library makes it."""

import json
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file

from repalign.exceptions import InputError, ModelError
from repalign.extraction.run import extract
from repalign.extraction.settings import ExtractSettings
from repalign.models.load import load_encoder
from repalign.store import open_store

OLD = "sentence_transformers.models"
NEW = "sentence_transformers.sentence_transformer.modules"


def save(
    tiny: ModuleType, root: Path, pooling: dict[str, Any], *more: str, base: str = OLD
) -> Path:
    """Save a tiny directory: BERT, a pooling, and parts behind it."""
    tiny.save_transformers(root, "bert")
    entries = [("Transformer", ""), ("Pooling", "1_Pooling")]
    entries += [(kind, f"{number}_{kind}") for number, kind in enumerate(more, start=2)]
    listed = [
        {"idx": k, "name": str(k), "path": path, "type": f"{base}.{kind}"}
        for k, (kind, path) in enumerate(entries)
    ]
    (root / "modules.json").write_text(json.dumps(listed))
    (root / "1_Pooling").mkdir()
    (root / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if "Dense" in more:
        folder = root / f"{2 + more.index('Dense')}_Dense"
        folder.mkdir()
        config = {"in_features": 32, "out_features": 8, "bias": True}
        config["activation_function"] = "torch.nn.modules.activation.Tanh"
        (folder / "config.json").write_text(json.dumps(config))
        torch.manual_seed(1)
        dense = {"linear.weight": torch.randn(8, 32), "linear.bias": torch.randn(8)}
        save_file(dense, folder / "model.safetensors")
    return root


def states(directory: Path, text: str) -> torch.Tensor:
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
    model = transformers.BertModel.from_pretrained(directory, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(tokenizer(text, return_tensors="pt")["input_ids"]).last_hidden_state[0]


# each as sentence-transformers defines it, over the tokens of one text
POOLED = {
    "cls": lambda x: x[0],
    "max": lambda x: x.max(0).values,
    "mean": lambda x: x.mean(0),
    "mean_sqrt_len_tokens": lambda x: x.sum(0) / len(x) ** 0.5,
    "weightedmean": lambda x: (
        sum((k + 1) * row for k, row in enumerate(x)) / (len(x) * (len(x) + 1) / 2)
    ),
    "lasttoken": lambda x: x[-1],
}


def rows_of(model: Path, tiny: ModuleType, output: Path, **more: Any) -> np.ndarray:
    data = output.with_suffix(".txt")
    data.write_text("\n".join(tiny.TEXTS) + "\n")
    extract(ExtractSettings(str(model), str(data), output, **more))
    with open_store(output) as store:
        (view,) = store.views
        return store.view(view).read(0, len(store))


@pytest.mark.parametrize("mode", POOLED)
def test_a_text_is_pooled_as_the_library_does(tiny: ModuleType, tmp_path: Path, mode: str) -> None:
    model = save(tiny, tmp_path / "m", {"pooling_mode": mode, "embedding_dimension": 32}, base=NEW)
    rows = rows_of(model, tiny, tmp_path / "a.h5")
    expected = np.stack([POOLED[mode](states(model, text)).numpy() for text in tiny.TEXTS])
    assert np.abs(rows - expected).max() < 1e-5 * np.abs(expected).max()


def test_dense_and_norm_follow_and_old_flags_are_read(tiny: ModuleType, tmp_path: Path) -> None:
    flags = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False}
    flags["pooling_mode_mean_tokens"] = True
    model = save(tiny, tmp_path / "m", flags, "Dense", "Normalize")
    rows = rows_of(model, tiny, tmp_path / "a.h5")
    torch.manual_seed(1)
    weight, bias = torch.randn(8, 32), torch.randn(8)
    for row, text in zip(rows, tiny.TEXTS, strict=True):
        vector = torch.tanh(weight @ states(model, text).mean(0) + bias)
        assert np.allclose(row, (vector / vector.norm()).numpy(), atol=1e-5)
    with open_store(tmp_path / "a.h5") as store:
        origin = store.spec["model"]
        assert origin["loader"] == "sentence-transformers"
        assert {"modules.json", "2_Dense/model.safetensors"} <= set(origin["file_sha256"])
        assert store.spec["view"]["views"]["final"]["pool"] == "own"


def test_states_of_tokens_are_there_too(tiny: ModuleType, tmp_path: Path) -> None:
    model = save(tiny, tmp_path / "m", {"pooling_mode": "cls"})
    rows = rows_of(model, tiny, tmp_path / "a.h5", layers=("-1",))
    expected = np.stack([states(model, text).mean(0).numpy() for text in tiny.TEXTS])
    assert np.allclose(rows, expected, atol=1e-5)
    with pytest.raises(InputError, match="own rule"):
        rows_of(model, tiny, tmp_path / "b.h5", pools=("mean",))
    with pytest.raises(InputError, match="give --pool mean"):
        rows_of(model, tiny, tmp_path / "b.h5", layers=("1",), pools=("own",))


def test_what_is_not_known_is_refused_with_the_way_out(tiny: ModuleType, tmp_path: Path) -> None:
    model = save(tiny, tmp_path / "a", {"pooling_mode": "mean"}, "CNN")
    with pytest.raises(ModelError, match="module 'CNN'"):
        load_encoder(str(model))
    model = save(tiny, tmp_path / "b", {"pooling_mode": "median"})
    with pytest.raises(ModelError, match="mode 'median'"):
        load_encoder(str(model))
    model = save(tiny, tmp_path / "c", {"pooling_mode": "mean"})
    (model / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    with pytest.raises(ModelError, match="lower case"):
        load_encoder(str(model))
    (model / "sentence_bert_config.json").write_text('{"max_seq_length": 7}')
    assert load_encoder(str(model)).max_length == 7
    (model / "config_sentence_transformers.json").write_text('{"default_prompt_name": "query"}')
    with pytest.raises(ModelError, match="prompt 'query'"):
        load_encoder(str(model))
    listed = json.loads((model / "modules.json").read_text())
    listed[1]["path"] = "../elsewhere"
    (model / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(ModelError, match="outside its directory"):
        load_encoder(str(model))


def test_a_repository_brings_its_folders(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = save(tiny, tmp_path / "m", {"pooling_mode": "mean"}, "Dense")
    files = [str(path.relative_to(model)) for path in model.rglob("*")]
    fetched: set[str] = set()

    def download(_name: str, *, allow_patterns: list[str], **_options: Any) -> str:
        fetched.update(f for f in files if any(fnmatch(f, pattern) for pattern in allow_patterns))
        return str(model)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert load_encoder("hf:someone/sentences").family.name == "sentence"
    assert {"modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors"} <= fetched
