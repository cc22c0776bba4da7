"""Checkpoints of sentence-transformers and open_clip, written by these libraries and run by them.

Beside `families.py`, which makes a table of what they give; each is tried where its library is
installed (`pip install sentence-transformers open_clip_torch`).
"""

import importlib.util
import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from bare_passes import BareRows, Line, copied, features_of_timm, images_of, roughen, texts_of
from safetensors.torch import save_file
from torch import Tensor, nn

from repalign.models.encoder import FINAL, Tap
from repalign.models.load import load_encoder

SENTENCES, IMAGES = "sentence-transformers", "open_clip"
# name → encoder, its rule of pooling, what follows
SENTENCE_MODELS = {
    "bert, mean": ("bert", "mean", ()),
    "bert, cls, Dense": ("bert", "cls", ("Dense",)),
    "mpnet, mean, Normalize": ("mpnet", "mean", ("Normalize",)),
    "distilbert, max": ("distilbert", "max", ()),
    "roberta, weightedmean, Dense, Normalize": ("roberta", "weightedmean", ("Dense", "Normalize")),
}
_PLAIN = {"image_size": 64, "layers": 3, "width": 64, "patch_size": 16, "head_width": 16}
_OF_TIMM = {"timm_pool": "", "timm_proj": "linear"}
# name → settings of the image encoder, and of the whole
IMAGE_MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ViT": (_PLAIN, {}),
    "ViT, quick GELU": (_PLAIN, {"quick_gelu": True}),
    "timm vit_tiny_patch16_224": (
        {"timm_model_name": "vit_tiny_patch16_224", "image_size": 224, **_OF_TIMM},
        {},
    ),
    "timm convnext_atto": (
        {"timm_model_name": "convnext_atto", "image_size": 64, **_OF_TIMM},
        {},
    ),
    "timm vit_base_patch16_siglip_224": (
        {"timm_model_name": "vit_base_patch16_siglip_224", "image_size": 224}
        | {"timm_pool": "map", "timm_proj": "none"},
        {"embed_dim": 768},
    ),
}


class Renamed(nn.Module):
    """Modules of another library under the names that the taps know."""

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def versions(packages: set[str]) -> list[str]:
    """The versions of those libraries that made a line of the table."""
    names = {SENTENCES: "sentence-transformers", IMAGES: "open_clip_torch"}
    return [f"{name} {version(name)}" for key, name in names.items() if key in packages]


def save_sentences(tiny: Any, root: Path, name: str) -> Any:
    """Let sentence-transformers make and save a tiny model; returns the model."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    kind, pooling, more = SENTENCE_MODELS[name]
    encoder = root / "encoder"
    save = tiny.save_other if kind in tiny.OTHERS else tiny.save_transformers
    save(encoder, kind)
    parts: list[Any] = [modules.Transformer(str(encoder)), modules.Pooling(32, pooling)]
    torch.manual_seed(0)
    parts += [modules.Dense(32, 8) if part == "Dense" else modules.Normalize() for part in more]
    model = SentenceTransformer(modules=parts, device="cpu").eval()
    model.save(str(root / "saved"))
    return model


def try_sentences(tiny: Any, work: Path, names: list[str]) -> Iterator[Line]:
    for number, name in enumerate(names):
        plain = save_sentences(tiny, work / f"sentence{number}", name)
        directory = work / f"sentence{number}" / "saved"
        yield texts_of(load_encoder(str(directory)), tiny.TEXTS, vectors(plain), SENTENCES, name)


def vectors(plain: Any) -> BareRows:
    """Rows of a model of sentence-transformers: its vector, and means over tokens before."""
    inner = Renamed(encoder=plain[0].auto_model)

    def bare(text: str, _tokens: Any, taps: list[Tap]) -> dict[str, Tensor]:
        vector: list[Tensor] = []

        def run() -> None:
            options: Any = {"convert_to_tensor": True, "show_progress_bar": False}
            vector.append(plain.encode([text], **options))

        found = copied(inner, [tap for tap in taps if tap.label != FINAL], run)
        return {label: states.mean(1) for label, states in found.items()} | {FINAL: vector[0]}

    return bare


def save_images(root: Path, name: str) -> Any:
    """Let open_clip make a small model with random weights and save it; returns the model."""
    import open_clip

    vision, more = IMAGE_MODELS[name]
    words = {"context_length": 16, "vocab_size": 100, "width": 32, "heads": 4, "layers": 2}
    settings: dict[str, Any] = {"embed_dim": 24, "vision_cfg": vision, "text_cfg": words} | more
    torch.manual_seed(0)
    model: Any = roughen(open_clip.model.CLIP(**settings))
    prepared = {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic"}
    config = {"model_cfg": settings, "preprocess_cfg": prepared | {"resize_mode": "shortest"}}
    root.mkdir()
    (root / "open_clip_config.json").write_text(json.dumps(config))
    state = {key: tensor.contiguous().clone() for key, tensor in model.state_dict().items()}
    save_file(state, root / "open_clip_model.safetensors")
    return model


def try_images(work: Path, names: list[str]) -> Iterator[Line]:
    for number, name in enumerate(names):
        directory = work / f"clip{number}"
        visual = save_images(directory, name).visual
        model = load_encoder(f"{directory}::vision")
        if name.startswith("timm"):
            line = images_of(model, visual.trunk, features_of_timm(visual.trunk), IMAGES, name)
        else:
            plain = Renamed(blocks=visual.transformer.resblocks, norm=visual.ln_post)
            line = images_of(model, plain, lambda x, v=visual: v(x), IMAGES, name)
        yield line
