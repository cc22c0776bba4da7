"""Every module of ten architectures: what is captured is what the module gave, also where the
model writes into it afterwards."""

from typing import Any

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from repalign.models.views.capture import first_tensor, run_capturing
from repalign.models.views.layers import Tap, module_names

ARCHITECTURES = [
    "torchvision:resnet18",
    "torchvision:resnet50",
    "torchvision:googlenet",
    "torchvision:densenet121",
    "torchvision:efficientnet_b0",
    "torchvision:convnext_tiny",
    "timm:resnet18",
    "timm:seresnet18",
    "timm:dla34",
    "timm:hrnet_w18_small",
]


def build(name: str) -> nn.Module:
    library, architecture = name.split(":")
    torch.manual_seed(0)
    if library == "timm":
        return timm.create_model(architecture, num_classes=10).eval()
    more = {"init_weights": False} if architecture == "googlenet" else {}
    made: nn.Module = torchvision.models.get_model(architecture, weights=None, **more)
    return made.eval()


def copies(module: nn.Module, run: Any) -> dict[str, Tensor]:
    """What every module gave at its last run, copied at once."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, _arguments: Any, output: Any) -> None:
            tensor = first_tensor(output)
            if tensor is not None:
                found[name] = tensor.clone()

        return hook

    handles = [part.register_forward_hook(keep(name)) for name, part in module.named_modules()]
    run()
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_module_is_captured_as_a_copying_hook_sees_it(name: str) -> None:
    module = build(name)
    pixels = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = copies(module, lambda: module(pixels))
        taps = [Tap(part, part) for part in module_names(module) if part in expected]
        overwritten: set[Tap] = set()
        found = run_capturing(module, taps, lambda: module(pixels), overwritten)
    assert len(taps) > 50
    wrong = [tap.label for tap in taps if not torch.equal(found[tap.label], expected[tap.label])]
    assert wrong == []
    # without copies the same passes are wrong: the comparison can fail
    assert overwritten
