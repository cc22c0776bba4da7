"""The trained models of the package beside five that nobody trained: all layers, in one picture.

Writes the five models, as transformers initialises them, with the tokenizer of the shipped ones;
extracts all layers of all seven by the command line; compares them, and draws a heat map and the
report.
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


def repalign(*words: str) -> str:
    """Run a command as its user does, and return what it prints."""
    print("repalign", *words, flush=True)
    command = [sys.executable, "-m", "repalign", "--quiet", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main() -> None:
    """Make everything in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", default="1200", help="texts to extract")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    models = {f"trained-{seed}": repalign("zoo", "path", f"gpt-neox-seed{seed}") for seed in (0, 1)}
    tokenizer = hf.AutoTokenizer.from_pretrained(models["trained-0"])
    for name, (model, config, sizes) in FRESH.items():
        torch.manual_seed(0)
        folder = given.folder / name
        model(config(vocab_size=len(tokenizer), **ENDS, **sizes)).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        models[name] = str(folder)
    rows = ["--data", "builtin:shakespeare", "--limit", given.limit, "--max-length", "128"]
    stores = []
    for name, model in models.items():
        store = str(given.folder / f"{name}.h5")
        repalign("extract", model, *rows, "--pool", "mean", "--layer", "all", "-o", store)
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
        "--refits",
        "0",
    ]
    picture = str(given.folder / "study.png")
    repalign("compare", *stores, *names, "--layers", "all", *cheap, "-o", result, "--plot", picture)
    repalign("report", result, "-o", str(given.folder / "study.html"))


if __name__ == "__main__":
    main()
