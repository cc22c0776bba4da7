"""Directories of sentence-transformers: an encoder, and what makes one vector of a text."""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from repalign.exceptions import ModelError
from repalign.models import hf
from repalign.models.capture import forward as run_hooked
from repalign.models.checkpoints import (
    build_filled,
    check_directory,
    hash_files,
    read_json,
    read_json_value,
    read_state_dict,
    weight_files,
)
from repalign.models.encoder import FINAL, Encoder, LayerMap, Tap, module_names, running
from repalign.models.families import SENTENCE

MODULES = "modules.json"
_FOLDER = re.compile(r"\w[\w.-]*", re.ASCII)
_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "torch.nn.modules.linear.Identity": nn.Identity,
    **{
        f"torch.nn.modules.activation.{kind.__name__}": kind
        for kind in (nn.Tanh, nn.ReLU, nn.GELU, nn.Sigmoid, nn.SiLU)
    },
}
# Old files name a mode by its own flag.
_MODE_OF_FLAG = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def load_directory(path: Path, name: str, revision: str | None = None) -> Encoder:
    """Load the encoder in float32, its pooling, and the parts behind them.

    Raises ModelError for parts that are not known, and for weights that do not fit.
    """
    (kind, folder), *behind = _modules(path, name)
    if kind != "Transformer" or not behind or behind[0][0] != "Pooling":
        kinds = ", ".join(k for k, _ in [(kind, folder), *behind])
        raise ModelError(f"{name} holds {kinds}; expected Transformer, Pooling, and what follows")
    settings = _check_settings(path, folder, name)
    inner = hf.load_directory(folder, name, revision)
    if inner.vocabulary_rows is None:
        raise ModelError(f"{name} takes no texts; give the directory of its encoder alone")
    files = hash_files([path / MODULES]) | inner.origin.files
    parts = []
    for kind, part_path in behind:
        part, part_files = _part(kind, part_path, f"{name}/{part_path.name}")
        parts.append(part)
        files |= {f"{part_path.name}/{file}": sha for file, sha in hash_files(part_files).items()}
    origin = replace(inner.origin, loader="sentence-transformers", files=files)
    limits = [limit for limit in (settings.get("max_seq_length"), inner.max_length) if limit]
    length = min((limit for limit in limits if type(limit) is int and limit > 0), default=None)
    return replace(_joined(inner, parts), origin=origin, max_length=length)


class _Joined(nn.Module):
    def __init__(self, encoder: nn.Module, parts: list[nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.parts = nn.Sequential(*parts)


def _joined(inner: Encoder, parts: list[nn.Module]) -> Encoder:
    """Return encoder and parts as one model, whose final state is a vector."""
    module = _Joined(inner.module, parts).eval()
    final = inner.layers.final

    def forward(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
        joined: Any = module
        pooling, *behind = joined.parts
        vectors: list[Tensor] = []
        run_hooked(
            replace(inner, module=joined.encoder),
            [final],
            inputs,
            lambda _, states: vectors.append(pooling(states, inputs.get("attention_mask"))),
        )
        vector = vectors[-1]
        for part in behind:
            with running(part):
                vector = part(vector)
        return vector

    pre_norm = inner.layers.pre_norm
    layers = LayerMap(
        tuple(f"encoder.{block}" for block in inner.layers.blocks),
        Tap(FINAL, "", "returned"),
        None if pre_norm is None else replace(pre_norm, module=f"encoder.{pre_norm.module}"),
        module_names(module),
    )
    family = replace(SENTENCE, pools=(*SENTENCE.pools, *inner.family.pools))
    # the pooling behind a decoder has to know its padding too
    return replace(
        inner, module=module, family=family, layers=layers, forward=forward, needs_mask=True
    )


def _modules(path: Path, name: str) -> list[tuple[str, Path]]:
    """Return kinds and directories of the modules, in order."""
    entries = read_json_value(path / MODULES)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ModelError(f"{MODULES} of {name} is not a list of objects")
    modules = []
    for entry in entries:
        kind, folder = str(entry.get("type", "")).rsplit(".", 1)[-1], str(entry.get("path") or "")
        if folder and not _FOLDER.fullmatch(folder):
            raise ModelError(f"{MODULES} of {name} names {folder!r} outside its directory")
        part_path = path / folder if folder else path
        if folder and part_path.is_dir():
            check_directory(part_path)
        modules.append((kind, part_path))
    if not modules:
        raise ModelError(f"{MODULES} of {name} names no modules")
    return modules


def _part(kind: str, part_path: Path, name: str) -> tuple[nn.Module, list[Path]]:
    """Return a part behind the encoder, and the files it was read from."""
    if kind == "Normalize":
        return Normalize(), []
    if kind not in ("Pooling", "Dense", "LayerNorm"):
        raise ModelError(
            f"{name} is a module {kind!r}, which is not supported; expected Pooling, Dense, "
            "LayerNorm or Normalize"
        )
    config = read_json(part_path / "config.json")
    if kind == "Pooling":
        return Pooling.from_config(config), [part_path / "config.json"]
    build: Callable[[], nn.Module] = partial(_build_part, kind, config, name)
    (weights, *_) = weight_files(part_path, name, ("model.safetensors", "pytorch_model.bin"))
    module = build_filled(build, read_state_dict(weights), name)
    return module, [weights, part_path / "config.json"]


def _columns(config: Mapping[str, Any], key: str, name: str) -> int:
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise ModelError(f"{name} has a config.json with {key} {value!r}; expected 1 or more")
    return value


def _build_part(kind: str, config: Mapping[str, Any], name: str) -> nn.Module:
    if kind == "LayerNorm":
        return nn.Sequential(OrderedDict(norm=nn.LayerNorm(_columns(config, "dimension", name))))
    activation = str(config.get("activation_function") or "torch.nn.modules.linear.Identity")
    source = config.get("module_input_name", "sentence_embedding")
    if (
        activation not in _ACTIVATIONS
        or source != "sentence_embedding"
        or config.get("use_residual")
    ):
        raise ModelError(
            f"{name} is a Dense of {source} with {activation}, which is not supported; give the "
            "directory of the encoder alone and pool it"
        )
    n_in, n_out = (_columns(config, key, name) for key in ("in_features", "out_features"))
    linear = nn.Linear(n_in, n_out, bias=bool(config.get("bias", True)))
    return nn.Sequential(OrderedDict(linear=linear, activation=_ACTIVATIONS[activation]()))


def _check_settings(path: Path, folder: Path, name: str) -> dict[str, Any]:
    """Return the settings of the encoder; refuse those that change texts."""
    file = folder / "sentence_bert_config.json"
    settings = read_json(file) if file.is_file() else {}
    if settings.get("do_lower_case"):
        raise ModelError(
            f"{name} makes texts lower case before its tokenizer (do_lower_case), which is not "
            "done here; make the data lower case and set it to false"
        )
    whole = path / "config_sentence_transformers.json"
    prompt = read_json(whole).get("default_prompt_name") if whole.is_file() else None
    if prompt:
        raise ModelError(
            f"{name} puts its prompt {prompt!r} before every text, which is not done here; write "
            "the prompt into the data and set default_prompt_name to null"
        )
    return settings


class Pooling(nn.Module):
    """Pools the states of a text to one vector, by one mode or several."""

    def __init__(self, modes: tuple[str, ...]) -> None:
        super().__init__()
        self.modes = modes

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Pooling":
        """Read the modes of a config, old or new.

        Raises ModelError for a mode that is not known.
        """
        setting = config.get("pooling_mode")
        if setting is None:
            setting = [mode for flag, mode in _MODE_OF_FLAG.items() if config.get(flag)] or ["mean"]
        modes = tuple(setting) if isinstance(setting, list) else (setting,)
        names = list(_MODE_OF_FLAG.values())
        unknown = [mode for mode in modes if mode not in names]
        if unknown:
            raise ModelError(f"pooling mode {unknown[0]!r}; expected {', '.join(names)}")
        return cls(modes)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        """Pool ``(batch, tokens, columns)``; ``mask`` is of real tokens, which stand first."""
        if mask is None:
            mask = torch.ones(states.shape[:2], device=states.device)
        real = mask.to(states.dtype)[..., None]
        return torch.cat([self._pooled(mode, states, real) for mode in self.modes], dim=-1)

    def _pooled(self, mode: str, states: Tensor, real: Tensor) -> Tensor:
        counts = real.sum(1)
        if mode == "cls":
            return states[:, 0].clone()
        if mode == "max":
            return states.masked_fill(real == 0, -torch.inf).amax(1)
        if mode == "lasttoken":
            last = counts.long()[:, :, None].expand(-1, 1, states.shape[2]) - 1
            return states.gather(1, last)[:, 0]
        weights = real
        if mode == "weightedmean":
            weights = real * torch.arange(1, states.shape[1] + 1, device=real.device)[:, None]
            counts = weights.sum(1)
        total = states.masked_fill(real == 0, 0.0).mul(weights).sum(1)
        return total / (counts.sqrt() if mode == "mean_sqrt_len_tokens" else counts)


class Normalize(nn.Module):
    """Vectors of length one."""

    def forward(self, vector: Tensor) -> Tensor:
        """Divide every row by its length."""
        return functional.normalize(vector, dim=-1)
