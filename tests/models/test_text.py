"""Tokens of texts: limits, padding, foreign tokenizers, and which tokens become rows."""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repalign.exceptions import InputError, ModelError
from repalign.extraction.batches import parse_tokens
from repalign.models.inputs.items import Item
from repalign.models.inputs.text import load_text_inputs, pad_batch
from repalign.models.load import load_encoder


def test_ids_are_those_of_the_file_and_special_tokens_survive_a_cut(
    tiny: ModuleType, tmp_path: Path
) -> None:
    model = load_encoder(str(tiny.save_transformers(tmp_path / "bert", "bert")))
    encoder = load_text_inputs(model, max_length=4)
    cat, the = (len(tiny.SPECIAL) + tiny.WORDS.index(word) for word in ("cat", "the"))
    long, short = encoder.encode(["the cat sat on a mat", "cat"])
    assert long.tolist() == [2, the, cat, 3]
    assert short.tolist() == [2, cat, 3]


def test_old_repositories_have_only_a_vocabulary(tiny: ModuleType, tmp_path: Path) -> None:
    directory = tiny.save_transformers(tmp_path / "bert", "bert")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (directory / name).unlink()
    (directory / "vocab.txt").write_text("\n".join(tiny.SPECIAL + tiny.WORDS))
    encoder = load_text_inputs(load_encoder(str(directory)))
    (ids,) = encoder.encode(["The cat"])
    assert ids.tolist() == [2, 4, 4 + tiny.WORDS.index("cat"), 3]


def test_lengths_beyond_the_positions_are_refused(tiny: ModuleType, tmp_path: Path) -> None:
    model = load_encoder(str(tiny.save_transformers(tmp_path / "gpt2", "gpt2")))
    assert load_text_inputs(model).max_length == 40
    with pytest.raises(InputError, match=r"--max-length 41, .*40 positions"):
        load_text_inputs(model, max_length=41)


def test_roberta_has_fewer_positions_than_its_config_says(tiny: ModuleType, tmp_path: Path) -> None:
    model = load_encoder(str(tiny.save_transformers(tmp_path / "roberta", "roberta")))
    encoder = load_text_inputs(model)
    assert encoder.max_length == 39  # 40, less the padding index 0 and one
    ids = encoder.encode(["cat " * 200])[0]
    assert len(ids) == 39
    model.module(input_ids=torch.from_numpy(ids[None]))


def test_a_tokenizer_of_another_model_is_refused(tiny: ModuleType, tmp_path: Path) -> None:
    directory = tiny.save_transformers(tmp_path / "neox", "gpt_neox")
    model = load_encoder(str(directory))
    pipeline = json.loads((directory / "tokenizer.json").read_text())
    pipeline["model"]["vocab"]["unheard-of"] = tiny.VOCABULARY
    (directory / "tokenizer.json").write_text(json.dumps(pipeline))
    message = f"{tiny.VOCABULARY + 1} tokens, .* {tiny.VOCABULARY}"
    with pytest.raises(ModelError, match=message):
        load_text_inputs(model)


def test_ids_are_checked_sample_by_sample(tiny: ModuleType, tmp_path: Path) -> None:
    model = load_encoder(str(tiny.save_transformers(tmp_path / "neox", "gpt_neox")))
    encoder = load_text_inputs(model)
    with pytest.raises(InputError, match="sample s7"):
        encoder.states(encoder.prepare(""), "s7")
    with pytest.raises(ModelError, match=r"999 .*sample s8"):
        encoder.states(Item(np.array([1, 999]), 2), "s8")


def test_missing_and_hostile_tokenizers_are_refused(tiny: ModuleType, tmp_path: Path) -> None:
    directory = tiny.save_transformers(tmp_path / "neox", "gpt_neox")
    model = load_encoder(str(directory))
    (directory / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": "x.Y"}}')
    with pytest.raises(ModelError, match="own code"):
        load_text_inputs(model)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ModelError, match=r"no tokenizer in empty"):
        load_text_inputs(model, source=empty)


def test_padding_is_on_the_right_and_masked_only_where_needed() -> None:
    ids = [np.array([5, 6, 7]), np.array([8])]
    inputs, lengths = pad_batch(ids, 9, masked=True)
    assert inputs["input_ids"].tolist() == [[5, 6, 7], [8, 9, 9]]
    assert inputs["attention_mask"].tolist() == [[True] * 3, [True, False, False]]
    assert lengths.tolist() == [3, 1]
    assert "attention_mask" not in pad_batch(ids, 9, masked=False)[0]
    assert "attention_mask" not in pad_batch(ids[:1], 9, masked=True)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", [0, 1, 2, 3, 4]),
        ("last", [4]),
        ("stride:2", [0, 2, 4]),
        ("sample:9", [0, 1, 2, 3, 4]),
    ],
)
def test_token_choices(text: str, expected: list[int]) -> None:
    choice = parse_tokens(text)
    assert choice.positions(5, seed=0, sample_hash=b"x" * 32).tolist() == expected


@given(st.integers(1, 50), st.integers(1, 20), st.integers(0, 5), st.binary(min_size=8, max_size=8))
def test_a_sample_of_tokens_depends_on_seed_and_content(
    length: int, number: int, seed: int, content: bytes
) -> None:
    choice = parse_tokens(f"sample:{number}")
    kept = choice.positions(length, seed=seed, sample_hash=content)
    assert len(kept) == min(number, length)
    assert (np.diff(kept) > 0).all()
    assert kept.max() < length
    again = choice.positions(length, seed=seed, sample_hash=content)
    assert np.array_equal(kept, again)


def test_positions_drawn_follow_the_sample_and_the_seed() -> None:
    choice = parse_tokens("sample:5")

    def drawn(seed: int, sample_hash: bytes) -> list[int]:
        return choice.positions(100, seed=seed, sample_hash=sample_hash).tolist()

    first, other = bytes(16), bytes(range(16))
    assert drawn(0, first) == drawn(0, first)
    assert drawn(0, first) != drawn(0, other)
    assert drawn(0, first) != drawn(1, first)


@pytest.mark.parametrize("text", ["", "some", "stride:0", "sample:x", "stride", "last:2"])
def test_other_token_choices_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="stride:k or sample:n"):
        parse_tokens(text)
