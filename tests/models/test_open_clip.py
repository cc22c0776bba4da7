"""Image encoders of open_clip, against its network written down a second time."""

import json
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError
from repalign.models.capture import Batch, encode, make_views
from repalign.models.load import choose_image_inputs, load_encoder

WIDTH, HEADS, PATCH, SIDE = 32, 2, 8, 32
VISION = {"image_size": SIDE, "layers": 2, "width": WIDTH, "patch_size": PATCH, "head_width": 16}


class Attended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(WIDTH, 4 * WIDTH), "c_proj": nn.Linear(4 * WIDTH, WIDTH)}
        )

    def forward(self, x: Tensor, quick: bool) -> Tensor:
        normed = self.ln_1(x)
        x = x + self.attn(normed, normed, normed, need_weights=False)[0]
        inner = self.mlp["c_fc"](self.ln_2(x))
        inner = inner * torch.sigmoid(1.702 * inner) if quick else nn.functional.gelu(inner)
        return x + self.mlp["c_proj"](inner)


class Vision(nn.Module):
    """The image encoder of CLIP as its paper's code has it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=False)
        self.class_embedding = nn.Parameter(torch.randn(WIDTH))
        self.positional_embedding = nn.Parameter(torch.randn((SIDE // PATCH) ** 2 + 1, WIDTH))
        self.ln_pre, self.ln_post = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.transformer = nn.ModuleDict({"resblocks": nn.ModuleList([Attended(), Attended()])})
        self.proj = nn.Parameter(torch.randn(WIDTH, 12))

    def forward(self, pixels: Tensor, quick: bool) -> Tensor:
        patches = self.conv1(pixels).flatten(2).transpose(1, 2)
        first = self.class_embedding.expand(len(pixels), 1, -1)
        x = self.ln_pre(torch.cat([first, patches], 1) + self.positional_embedding)
        for block in self.transformer["resblocks"]:
            x = block(x, quick)
        return self.ln_post(x)


def save(directory: Path, state: dict[str, Tensor], vision: dict[str, Any], **more: Any) -> str:
    directory.mkdir()
    settings = {"embed_dim": 12, "vision_cfg": vision, "text_cfg": {"width": 8}, **more}
    prepared = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "interpolation": "bicubic"}
    config = {"model_cfg": settings, "preprocess_cfg": prepared | {"resize_mode": "squash"}}
    (directory / "open_clip_config.json").write_text(json.dumps(config))
    kept = {key: tensor.contiguous().clone() for key, tensor in state.items()}
    save_file(kept, directory / "open_clip_model.safetensors")
    return str(directory)


def visual(module: nn.Module, prefix: str = "visual.") -> dict[str, Tensor]:
    state = {f"{prefix}{key}": tensor for key, tensor in module.state_dict().items()}
    return state | {"token_embedding.weight": torch.zeros(4, 8), "logit_scale": torch.ones(())}


@pytest.mark.parametrize("quick", [False, True])
def test_tokens_are_those_of_the_network(tmp_path: Path, quick: bool) -> None:
    torch.manual_seed(0)
    plain = Vision().eval()
    for parameter in plain.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    model = load_encoder(save(tmp_path / "m", visual(plain), VISION, quick_gelu=quick) + "::vision")
    pixels = torch.randn(3, 3, SIDE, SIDE)
    views = make_views(model, ("final",), ("cls", "patch-mean"))
    rows = encode(model, views, Batch({"pixel_values": pixels}))
    with torch.no_grad():
        expected = plain(pixels, quick)
    assert torch.allclose(rows["final.cls"], expected[:, 0], atol=1e-5)
    assert torch.allclose(rows["final.patch-mean"], expected[:, 1:].mean(1), atol=1e-5)
    assert model.origin.loader == "open_clip"
    prepared = choose_image_inputs(model)
    assert prepared(Image.new("RGB", (50, 40))).shape == (3, SIDE, SIDE)
    assert (prepared.mean, prepared.edges) == ((0.5, 0.5, 0.5), (SIDE, SIDE))


def test_a_trunk_of_timm_is_timms(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trunk = timm.create_model("resnet10t", num_classes=0).eval()
    vision = {"timm_model_name": "resnet10t", "timm_pool": "avg", "image_size": 64}
    name = save(tmp_path / "m", visual(trunk, "visual.trunk."), vision | {"timm_proj": "linear"})
    model = load_encoder(f"{name}::vision")
    pixels = torch.randn(2, 3, 64, 64)
    rows = encode(model, make_views(model), Batch({"pixel_values": pixels}))
    with torch.no_grad():
        assert torch.allclose(rows["final"], trunk(pixels), atol=1e-5)
    assert model.image_size == (3, 64, 64)


def test_what_is_not_the_plain_encoder_is_refused(tmp_path: Path) -> None:
    name = save(tmp_path / "m", visual(Vision()), VISION)
    for part in ("", "::text"):
        with pytest.raises(InputError, match=r"m::vision; "):
            load_encoder(name + part)
    name = save(tmp_path / "n", visual(Vision()), VISION | {"attentional_pool": True})
    with pytest.raises(ModelError, match="attentional_pool True"):
        load_encoder(f"{name}::vision")
    name = save(tmp_path / "r", visual(Vision()), {"layers": [1, 1, 1, 1], "width": 8})
    with pytest.raises(ModelError, match=r"ResNet; .*timm:resnet50_clip@file"):
        load_encoder(f"{name}::vision")
