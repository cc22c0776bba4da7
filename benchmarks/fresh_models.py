"""The trained models of the package beside five that nobody trained: all layers, in one picture.

Writes the five models, as transformers initialises them, with the tokenizer or the image processor
of the shipped ones; extracts all layers of all models by the command line; compares them, and draws
a heat map and the report.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import torch
import transformers as hf

ENDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
ROOM = {"max_position_embeddings": 128, "hidden_size": 48, "num_attention_heads": 4}
DEEP = {**ROOM, "num_hidden_layers": 4}
FRESH = {
    "gpt2": (hf.GPT2Model, hf.GPT2Config, {"n_embd": 48, "n_layer": 4, "n_head": 4}),
    "llama": (hf.LlamaModel, hf.LlamaConfig, {**DEEP, "intermediate_size": 96}),
    "opt": (hf.OPTModel, hf.OPTConfig, {**DEEP, "ffn_dim": 96, "word_embed_proj_dim": 48}),
    "bloom": (hf.BloomModel, hf.BloomConfig, {"hidden_size": 48, "n_layer": 4, "n_head": 4}),
    "neox": (hf.GPTNeoXModel, hf.GPTNeoXConfig, {**DEEP, "intermediate_size": 96}),
}
TRAINED = {"trained-0": "gpt-neox-seed0", "trained-1": "gpt-neox-seed1"}
TRAINED_IMAGES = {
    "mae-0": "mae-transformers-seed0",
    "mae-1": "mae-timm-seed1",
    "mae-wide": "mae-wide-seed1",
    "mae-untrained": "mae-untrained-seed1",
    "resnet-0": "resnet-seed0",
    "resnet-1": "resnet-seed1",
}
GREY = {"image_size": 32, "num_channels": 1}
PATCHES = {**GREY, "patch_size": 4, "hidden_size": 48, "num_attention_heads": 4}
BLOCKS = {**PATCHES, "num_hidden_layers": 4, "intermediate_size": 192}
SWIN = {"embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
CONV = {"num_channels": 1, "hidden_sizes": [12, 24, 36, 48]}
FRESH_IMAGES = {
    "vit": (hf.ViTModel, hf.ViTConfig, BLOCKS),
    "dinov2": (hf.Dinov2Model, hf.Dinov2Config, {**PATCHES, "num_hidden_layers": 4}),
    "swin": (hf.SwinModel, hf.SwinConfig, {**GREY, "patch_size": 2, **SWIN}),
    "convnext": (hf.ConvNextModel, hf.ConvNextConfig, {**CONV, "depths": [1, 1, 2, 1]}),
    "resnet": (hf.ResNetModel, hf.ResNetConfig, {**CONV, "embedding_size": 12, "depths": [1] * 4}),
}


def repalign(*words: str) -> str:
    """Run a command as its user does, and return what it prints."""
    print("repalign", *words, flush=True)
    command = [sys.executable, "-m", "repalign", "--quiet", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main() -> None:
    """Make everything in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", action="store_true", help="image models instead of language")
    parser.add_argument("--limit", help="texts or images to extract")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.images:
        trained, fresh, data = TRAINED_IMAGES, FRESH_IMAGES, ["builtin:digits"]
        limit = given.limit or "600"
    else:
        trained, fresh, limit = TRAINED, FRESH, given.limit or "1200"
        data = ["builtin:shakespeare", "--max-length", "128", "--pool", "mean"]
    models = {name: repalign("zoo", "path", model) for name, model in trained.items()}
    first = next(iter(models.values()))
    processor = (hf.AutoImageProcessor if given.images else hf.AutoTokenizer).from_pretrained(first)
    every = {} if given.images else {"vocab_size": len(processor), **ENDS}
    for name, (model, config, sizes) in fresh.items():
        torch.manual_seed(0)
        folder = given.folder / name
        model(config(**every, **sizes)).save_pretrained(folder)
        processor.save_pretrained(folder)
        models[name] = str(folder)
    rows = ["--data", *data, "--limit", limit]
    stores = []
    for name, model in models.items():
        store = str(given.folder / f"{name}.h5")
        repalign("extract", model, *rows, "--layer", "all", "-o", store)
        stores.append(store)
    result, names = str(given.folder / "study.json"), []
    for name, store in zip(models, stores, strict=True):
        names += ["--name", f"{name}={store}"]
    cheap = [
        "--maps",
        "mean,rigid,linear",
        "--measures",
        "linear-cka",
        "--split",
        "0.3",
        "--null",
        "0",
        "--halves",
        "0",
    ]
    picture = str(given.folder / "study.png")
    repalign("compare", *stores, *names, "--layers", "all", *cheap, "-o", result, "--plot", picture)
    repalign("report", result, "-o", str(given.folder / "study.html"))


if __name__ == "__main__":
    main()
