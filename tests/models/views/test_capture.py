"""What hooks take is what the module gave, whatever later operations do to that memory."""

from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn

from repalign.models.views.capture import run_capturing
from repalign.models.views.layers import Tap


def _transformers_resnet() -> nn.Module:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[2, 2, 2, 2], layer_type="basic"
    )
    return transformers.ResNetModel(config)


def _torchvision(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: torchvision.models.get_model(name, weights=None, **options)


def _timm(name: str) -> Callable[[], nn.Module]:
    return lambda: timm.create_model(name, pretrained=False)


ARCHITECTURES: dict[str, Callable[[], nn.Module]] = {
    "torchvision densenet121": _torchvision("densenet121"),
    "torchvision resnet18": _torchvision("resnet18"),
    "torchvision googlenet": _torchvision("googlenet", aux_logits=False, init_weights=False),
    "torchvision efficientnet_b0": _torchvision("efficientnet_b0"),
    "timm resnet18": _timm("resnet18"),
    "timm resnet50": _timm("resnet50"),
    "timm seresnet18": _timm("seresnet18"),
    "timm dla34": _timm("dla34"),
    "timm hrnet_w18_small": _timm("hrnet_w18_small"),
    "transformers ResNet": _transformers_resnet,
}


def first_tensor(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value
    parts = list(value.values()) if hasattr(value, "values") else value
    return next((part for part in parts if isinstance(part, Tensor)), None)


def copies(module: nn.Module, pixels: Tensor) -> dict[str, Tensor]:
    """The first tensor that each module returns, copied at that moment."""
    found: dict[str, Tensor] = {}

    def hook(name: str) -> Any:
        def keep(_module: nn.Module, _arguments: Any, output: Any) -> None:
            tensor = first_tensor(output)
            if tensor is not None:
                found[name] = tensor.clone()

        return keep

    handles = [part.register_forward_hook(hook(name)) for name, part in module.named_modules()]
    with torch.no_grad():
        module(pixels)
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_module_gives_what_a_copying_hook_sees(name: str) -> None:
    torch.manual_seed(0)
    module = ARCHITECTURES[name]().eval()
    overwritten: set[Tap] = set()
    for batch in (2, 3):  # the second pass knows what the first one learned
        pixels = torch.randn(batch, 3, 64, 64)
        expected = copies(module, pixels)
        taps = [Tap(label, label) for label in expected if label]
        with torch.no_grad():
            found = run_capturing(module, taps, lambda: module(pixels), overwritten)  # noqa: B023
        assert len(found) == len(taps) > 20
        wrong = [
            tap.label for tap in taps if not torch.equal(found[tap.label], expected[tap.label])
        ]
        assert wrong == []
        assert 0 < len(overwritten) < len(taps) / 3, "copied where something overwrites"


class Late(nn.Module):
    """Overwrites what enters its block in some passes only."""

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
def test_what_is_overwritten_in_a_later_pass_alone_is_right_there_too(side: Any) -> None:
    module, tap, overwritten = Late(), Tap("block", "block", side), set[Tap]()
    for rows in (torch.randn(1, 2), torch.randn(4, 2)):
        expected = (rows if side == "input" else module.block(rows)).detach().clone()
        given = rows.clone()
        with torch.no_grad():
            found = run_capturing(module, [tap], lambda: module(given.clone()), overwritten)  # noqa: B023
        assert torch.equal(found["block"], expected)
    assert overwritten == {tap}


def test_a_model_that_runs_in_inference_mode_is_copied() -> None:
    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Linear(2, 2)

        def forward(self, rows: Tensor) -> Tensor:
            with torch.inference_mode():
                return self.block(rows).mul_(2.0)

    module, rows = Inside(), torch.randn(3, 2)
    with torch.no_grad():
        expected = module.block(rows)
        found = run_capturing(module, [Tap("block", "block")], lambda: module(rows), set())
    assert torch.equal(found["block"], expected)
