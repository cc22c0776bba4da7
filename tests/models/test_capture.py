"""What hooks take is what the module gave, whatever later operations do to that memory."""

from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn

from repalign.exceptions import ModelError
from repalign.models.capture import Batch, as_sequence, encode, first_tensor, forward, make_views
from repalign.models.custom import encoder_from_module
from repalign.models.encoder import Tap, module_names


def _transformers_resnet() -> nn.Module:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[2, 2, 2, 2], layer_type="basic"
    )
    return transformers.ResNetModel(config)


def _torchvision(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: torchvision.models.get_model(name, weights=None, **options)


def _timm(name: str) -> Callable[[], nn.Module]:
    return lambda: timm.create_model(name, pretrained=False, num_classes=10)


ARCHITECTURES: dict[str, Callable[[], nn.Module]] = {
    "torchvision densenet121": _torchvision("densenet121"),
    "torchvision resnet18": _torchvision("resnet18"),
    "torchvision googlenet": _torchvision("googlenet", aux_logits=False, init_weights=False),
    "torchvision efficientnet_b0": _torchvision("efficientnet_b0"),
    "torchvision convnext_tiny": _torchvision("convnext_tiny"),
    "timm resnet18": _timm("resnet18"),
    "timm seresnet18": _timm("seresnet18"),
    "timm dla34": _timm("dla34"),
    "timm hrnet_w18_small": _timm("hrnet_w18_small"),
    "transformers ResNet": _transformers_resnet,
}
SLOW = ("densenet121", "googlenet", "convnext_tiny", "hrnet_w18_small", "efficientnet_b0")


def copies(module: nn.Module, pixels: Tensor) -> dict[str, Tensor]:
    """Return the first tensor that each module returns, copied at that moment."""
    states: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, _arguments: Any, output: Any) -> None:
            tensor = first_tensor(output)
            if tensor is not None:
                states[name] = tensor.clone()

        return hook

    handles = [part.register_forward_hook(keep(name)) for name, part in module.named_modules()]
    with torch.no_grad():
        module(pixels)
    for handle in handles:
        handle.remove()
    return states


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name.split()[1] in SLOW else [])
        for name in ARCHITECTURES
    ],
)
def test_every_module_gives_what_a_copying_hook_sees(name: str) -> None:
    torch.manual_seed(0)
    module = ARCHITECTURES[name]().eval()
    encoder = encoder_from_module(module, {"": torch.randn(2, 3, 64, 64)})
    for count in (2, 3):
        pixels = torch.randn(count, 3, 64, 64)
        expected = copies(module, pixels)
        layers = [
            label
            for label in module_names(module)
            if label in expected and expected[label].ndim in (2, 4)
        ]
        assert len(layers) > 20
        views = make_views(encoder, layers, ("mean", "last"))
        rows = encode(encoder, views, Batch({"": pixels}))
        for layer in layers:
            state = as_sequence(expected[layer], (64, 64))
            assert torch.equal(rows[f"{layer}.mean"], state.mean(1)), layer
            assert torch.equal(rows[f"{layer}.last"], state[:, -1]), layer


class Late(nn.Module):
    """Overwrites what enters its block and what leaves it, in some passes."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Linear(2, 2)

    def forward(self, rows: Tensor) -> Tensor:
        out = self.block(rows)
        if len(rows) > 1:
            out[:, :1].add_(100.0)  # through a view
            rows.zero_()
        return out


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("pool", ["mean", "token", "cls", "last"])
def test_rows_are_new_tensors_that_nothing_overwrites(side: Any, pool: Any) -> None:
    module = Late()
    encoder = encoder_from_module(module, {"": torch.randn(2, 2)})
    (view,) = make_views(encoder, ("block",), (pool,))
    view = type(view)(view.key, Tap("block", "block", side), view.pool)
    for rows in (torch.randn(1, 2), torch.randn(4, 2)):
        expected = (rows if side == "input" else module.block(rows)).detach().clone()
        taken = encode(encoder, [view], Batch({"": rows.clone()}))
        assert torch.equal(taken["block"], expected)


def test_a_model_that_runs_in_inference_mode_is_right_too() -> None:
    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Linear(2, 2)

        def forward(self, rows: Tensor) -> Tensor:
            with torch.inference_mode():
                return self.block(rows).mul_(2.0)

    module, rows = Inside(), torch.randn(3, 2)
    encoder = encoder_from_module(module, {"": rows})
    with torch.no_grad():
        expected = module.block(rows)
    assert torch.equal(
        encode(encoder, make_views(encoder, ("block",)), Batch({"": rows}))["block"], expected
    )


def test_a_layer_that_does_not_run_is_named() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused, self.block = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, rows: Tensor) -> Tensor:
            return self.block(rows)

    encoder = encoder_from_module(Unused(), {"": torch.randn(2, 2)})
    with pytest.raises(ModelError, match="unused"):
        forward(encoder, [Tap("unused", "unused")], {"": torch.randn(2, 2)}, lambda *_: None)
