"""Layer names: numbers from both ends, words, modules, and near matches for typos."""

from pathlib import Path
from types import ModuleType

import pytest
from torch import nn

from repalign.exceptions import InputError
from repalign.models.encoder import LayerMap, Tap, map_layers, resolve_layers
from repalign.models.load import load_encoder


class Toy(nn.Module):
    """Three blocks and a norm, under names of its own."""

    def __init__(self, *, norm: bool) -> None:
        super().__init__()
        self.enter = nn.Linear(2, 2)
        self.stack = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
        if norm:
            self.closing = nn.LayerNorm(2)
        self.fc_norm = nn.LayerNorm(2)


@pytest.fixture
def layers() -> LayerMap:
    toy = Toy(norm=True)
    return map_layers(toy, [f"stack.{k}" for k in range(3)])


def labels(layers: LayerMap, *requests: str) -> list[tuple[str, str, str]]:
    return [(tap.label, tap.module, tap.side) for tap in resolve_layers(layers, requests)]


def test_the_norm_behind_the_blocks_is_found_by_what_it_is(layers: LayerMap) -> None:
    assert layers.final == Tap("final", "closing")


def test_numbers_count_from_both_ends(layers: LayerMap) -> None:
    assert labels(layers, "-1", "3") == [("block-3", "stack.2", "output")]
    assert labels(layers, "-2") == [("block-2", "stack.1", "output")]
    assert labels(layers, "0", "-4") == [("embeddings", "stack.0", "input")]


def test_words_and_modules(layers: LayerMap) -> None:
    assert labels(layers, "pre-norm") == [("pre-norm", "closing", "input")]
    assert [label for label, *_ in labels(layers, "all")] == [
        "block-1", "block-2", "block-3", "final",
    ]  # fmt: skip
    assert labels(layers, "enter") == [("enter", "enter", "output")]


def test_a_model_without_final_norm_has_no_pre_norm() -> None:
    toy = Toy(norm=False)
    layers = map_layers(toy, [f"stack.{k}" for k in range(3)])
    assert layers.final == Tap("final", "stack.2")
    with pytest.raises(InputError, match="no layer 'pre-norm'"):
        resolve_layers(layers, ["pre-norm"])


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("4", "no layer 4: .*3 blocks"),
        ("-5", "no layer -5"),
        ("stakc.1", r"'stakc.1' .*stack.1"),
        ("zzzz", "pre-norm, all, a number"),
    ],
)
def test_a_wrong_layer_gets_one_line(layers: LayerMap, request_: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve_layers(layers, [request_])


@pytest.mark.parametrize(
    ("family", "final", "has_pre_norm"),
    [
        ("gpt_neox", "final_layer_norm", True),
        ("gpt2", "ln_f", True),
        ("llama", "norm", True),
        ("bert", "encoder.layer.2", False),
        ("distilbert", "transformer.layer.2", False),
        ("vit", "layernorm", True),
        ("dinov2", "layernorm", True),
        ("resnet", "", False),
    ],
)
def test_the_final_state_of_each_family(
    tiny: ModuleType, tmp_path: Path, family: str, final: str, has_pre_norm: bool
) -> None:
    layers = load_encoder(str(tiny.save_transformers(tmp_path / family, family))).layers
    assert layers.final.module == final
    assert (layers.pre_norm is not None) == has_pre_norm
