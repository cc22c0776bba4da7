"""Damaged checkpoints: configs, indices, tokenizers, preprocessing and weights of real formats."""

import json
import random
import struct
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from repalign.models.capture import make_views, probe_shapes
from repalign.models.inputs.text import load_text_inputs
from repalign.models.load import choose_image_inputs, load_encoder
from tests import tiny_models
from tests.faults.counts import Counts
from tests.faults.damage import damaged_bytes, damaged_json
from tests.faults.targets import Target, any_damage, damage_all

TRANSFORMERS = ("gpt_neox", "llama", "roberta", "vit", "vit_mae", "resnet")
TIMM = ("vit", "resnet")
# Names that a library may open, from inside and outside of the directory.
PLACES = (
    "../outside.safetensors", "/dev/zero", "/etc/passwd", "a/../../outside.safetensors", "",
    "model.safetensors", "outside.safetensors", "config.json", "x" * 300, "\x00", "..", "pipe",
)  # fmt: skip
CODE = "open('payload', 'w').close()\n"
PAYLOADS = (
    {"auto_map": {"AutoConfig": "payload.Config", "AutoModel": "payload.Model"}},
    {"auto_map": {"AutoTokenizer": ["payload.Tokenizer", None]}},
    {"auto_map": {"AutoModel": "other/repository--payload.Model"}},
    {"model_type": "payload", "architectures": ["payload.Model"]},
    {"transformers_weights": "../outside.safetensors"},
    {"chat_template": "{{ cycler.__init__.__globals__.os.system('touch payload') }}"},
    {"tokenizer_class": "payload.Tokenizer"},
    {"custom_pipelines": {"x": {"impl": "payload.P", "pt": ["AutoModel"]}}},
    {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
    {"use_kernels": True, "attn_implementation": "kernels-community/x"},
    {"_attn_implementation": "other/kernel"},
    {"image_processor_type": "payload.Processor"},
    {"pretrained_cfg": {"file": "../outside.safetensors", "url": "http://localhost/x"}},
    {"architecture": "hf-hub:other/model"},
    {"model_args": {"checkpoint_path": "../outside.safetensors"}},
)


def damage_checkpoints(folder: Path, count: int, *, seed: int = 0) -> Counts:
    """Load damaged checkpoints as far as an extraction would, and run one blank input."""
    torch.set_num_threads(1)
    return damage_all(Counts("checkpoints"), checkpoint_targets(folder), folder, count, seed)


def checkpoint_targets(folder: Path) -> list[Target]:
    """Return a target for every file of small checkpoints; a payload lies in each directory."""
    save_file({"x": torch.zeros(3)}, folder / "outside.safetensors")
    places = [tiny_models.save_transformers(folder / name, name) for name in TRANSFORMERS]
    places += [tiny_models.save_timm(folder / f"timm-{name}", name) for name in TIMM]
    _split(tiny_models.save_transformers(folder / "sharded", "gpt_neox"))
    pickled = tiny_models.save_transformers(folder / "pickled", "vit")
    weights = load_file(pickled / "model.safetensors")
    (pickled / "model.safetensors").unlink()
    torch.save(weights, pickled / "pytorch_model.bin")
    targets = []
    for place in [*places, folder / "sharded", pickled]:
        (place / "payload.py").write_text(CODE)
        use = partial(_used, place)
        for file in sorted(place.iterdir()):
            if file.suffix == ".py":
                continue
            damage, share = any_damage, 1
            if file.suffix == ".json":
                damage, share = _damaged_config, 3 if file.name == "config.json" else 1
            elif file.suffix == ".safetensors":
                damage, share = _damaged_weights, 2
            told = f"{place.name}/{file.name}"
            targets.append(Target(told, file, use, damage, share=share))
    return targets


def _used(directory: Path) -> Any:
    """Load a checkpoint and return what it makes of one input, to three digits."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = load_encoder(str(directory))
        size = None
        if model.family.kind == "text":
            encoder = load_text_inputs(model)
            item = encoder.prepare("the cat sat")
            encoder.states(item, "1")
            told: Any = str(item.values)
        else:
            preprocess = choose_image_inputs(model)
            size = preprocess.size
            told = preprocess(Image.new("RGB", (50, 40))).shape
        views = make_views(model, ("final", "0"))
        return told, str(probe_shapes(model, [view.tap for view in views], size))


def _split(directory: Path) -> None:
    """Cut the weights into two shards with an index."""
    weights = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    names = sorted(weights)
    places = {}
    for number, chosen in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-{number:05d}-of-00002.safetensors"
        save_file({name: weights[name] for name in chosen}, directory / file, {"format": "pt"})
        places |= dict.fromkeys(chosen, file)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def _damaged_config(whole: bytes, rng: random.Random) -> bytes:
    """Damage bytes or values, or put in what names code or files elsewhere."""
    kind = rng.random()
    if kind < 0.15:
        return damaged_bytes(whole, rng)
    if kind > 0.35:
        return damaged_json(whole.decode(), rng).encode(errors="surrogatepass")
    content = json.loads(whole)
    if isinstance(content.get("weight_map"), dict):
        for name in rng.sample(sorted(content["weight_map"]), k=rng.choice([1, 3])):
            content["weight_map"][name] = rng.choice(PLACES)
    else:
        content |= rng.choice(PAYLOADS)
    return json.dumps(content).encode()


def _damaged_weights(whole: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.4:
        return any_damage(whole, rng)
    (length,) = struct.unpack("<Q", whole[:8])
    header = whole[8 : 8 + length].decode()
    made = damaged_json(header, rng).encode(errors="surrogatepass")
    return struct.pack("<Q", len(made)) + made + whole[8 + length :]
