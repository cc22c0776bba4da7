"""Directories of sentence-transformers: an encoder of transformers, and what makes one vector."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from repalign.exceptions import ModelError
from repalign.files import file_sha256
from repalign.models.composed.sentence_parts import ACTIVATIONS, Dense, Norm, Normalize, Pooling
from repalign.models.loaders.config_policy import check_sizes
from repalign.models.loaders.families import SENTENCE, Pool
from repalign.models.loaders.files import Checkpoint, check_directory, read_json, read_list
from repalign.models.loaders.loaded import LoadedModel
from repalign.models.loaders.loader import Loader, refuse_part
from repalign.models.loaders.transformers import LOADER as TRANSFORMERS
from repalign.models.loaders.weights import build_filled
from repalign.models.views.capture import run_capturing
from repalign.models.views.layers import FINAL, LayerMap, Tap, module_names

_MODULES = "modules.json"
_FOLDER = re.compile(r"\w[\w.-]*", re.ASCII)


class SentenceLoader(Loader):
    """A transformer, a pooling, and any number of Dense, LayerNorm and Normalize behind."""

    def claims(self, path: Path) -> bool:
        """Whether a directory has the list of modules that sentence-transformers writes."""
        return (path / _MODULES).is_file()

    def load_path(
        self, path: Path, name: str, revision: str | None = None, part: str | None = None
    ) -> LoadedModel:
        """Load the encoder in float32 and the parts behind it.

        Raises ModelError for parts that are not known, and for weights that do not fit.
        """
        refuse_part(name, part)
        (kind, folder), *others = _modules(path, name)
        if kind != "Transformer" or not others or others[0][0] != "Pooling":
            found = ", ".join(k for k, _ in [(kind, folder), *others])
            raise ModelError(
                f"{name} holds {found}; expected Transformer, Pooling, and what follows"
            )
        _check_settings(path, folder, name)
        inner = TRANSFORMERS.load_path(folder, name, revision)
        if inner.vocabulary_rows is None:
            raise ModelError(f"{name} takes no texts; give the directory of its encoder alone")
        files = {_MODULES: file_sha256(path / _MODULES)} | dict(inner.origin.files)
        parts = []
        for kind, place in others:
            made, hashes = _part(kind, place, f"{name}/{place.name}")
            parts.append(made)
            files |= {f"{place.name}/{file}": digest for file, digest in hashes.items()}
        origin = replace(inner.origin, loader="sentence-transformers", files=files)
        return replace(_joined(inner, parts), origin=origin, max_length=_length(folder, inner))


LOADER = SentenceLoader()


class _Joined(nn.Module):
    def __init__(self, encoder: nn.Module, parts: list[nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.parts = nn.Sequential(*parts)


def _joined(inner: LoadedModel, parts: list[nn.Module]) -> LoadedModel:
    """The encoder with its parts as one model, whose final state is the sentence's vector."""
    module = _Joined(inner.module, parts).eval()
    final = inner.layers.final

    def call(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
        encoder: Any = module.encoder
        states = run_capturing(
            encoder, [final], lambda: inner.call(encoder, inputs), inner.overwritten
        )[final.label]
        pooling, *rest = module.parts  # type: ignore[misc]
        mask = inputs.get("attention_mask")
        vector = pooling(states, None if mask is None else mask[:, 0, 0, :])
        for part in rest:
            vector = part(vector)
        return vector

    def moved(tap: Tap) -> Tap:
        return replace(tap, module=f"encoder.{tap.module}")

    layers = LayerMap(
        tuple(f"encoder.{block}" for block in inner.layers.blocks),
        Tap(FINAL, "", "returned"),
        None if inner.layers.pre_norm is None else moved(inner.layers.pre_norm),
        module_names(module),
    )
    own: tuple[Pool, ...] = (*SENTENCE.pools, *inner.family.pools)
    return replace(
        inner,
        module=module,
        family=replace(SENTENCE, pools=own),
        layers=layers,
        call=call,
        # the pooling behind a decoder has to know its padding too
        needs_mask=True,
        overwritten=set(),
    )


def _modules(path: Path, name: str) -> list[tuple[str, Path]]:
    """Kinds and directories of the modules, in order."""
    found = []
    for entry in read_list(path / _MODULES):
        kind, folder = str(entry.get("type", "")).rsplit(".", 1)[-1], str(entry.get("path") or "")
        if folder and not _FOLDER.fullmatch(folder):
            raise ModelError(f"{_MODULES} of {name} names {folder!r} outside its directory")
        place = path / folder if folder else path
        if folder and place.is_dir():
            check_directory(place)
        found.append((kind, place))
    if not found:
        raise ModelError(f"{_MODULES} of {name} names no modules")
    return found


def _part(kind: str, place: Path, name: str) -> tuple[nn.Module, dict[str, str]]:
    """One part behind the encoder, and the hashes of what it was read from."""
    if kind == "Normalize":
        return Normalize(), {}
    if kind not in ("Pooling", "Dense", "LayerNorm"):
        raise ModelError(
            f"{name} is a module {kind!r}, which is not supported; expected Pooling, Dense, "
            "LayerNorm or Normalize"
        )
    config = read_json(place / "config.json")
    check_sizes(config, name)
    if kind == "Pooling":
        return Pooling.of(config), {"config.json": file_sha256(place / "config.json")}
    build: Callable[[], nn.Module]
    build = (
        _dense(config, name)
        if kind == "Dense"
        else partial(Norm, _n_columns(config, "dimension", name))
    )
    checkpoint = Checkpoint(place, name, ("model.safetensors", "pytorch_model.bin"))
    made = build_filled(build, checkpoint.read(), name)
    return made.float(), checkpoint.hashes(place / "config.json")


def _n_columns(config: Mapping[str, Any], key: str, name: str) -> int:
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise ModelError(f"{name} has a config.json with {key} {value!r}; expected 1 or more")
    return value


def _dense(config: dict[str, Any], name: str) -> Callable[[], nn.Module]:
    activation = config.get("activation_function") or "torch.nn.modules.linear.Identity"
    where = config.get("module_input_name", "sentence_embedding")
    is_known = str(activation) in ACTIVATIONS and where == "sentence_embedding"
    if not is_known or config.get("use_residual"):
        raise ModelError(
            f"{name} is a Dense of {where} with {activation}, which is not supported; give the "
            "directory of the encoder alone and pool it"
        )
    sizes = (_n_columns(config, key, name) for key in ("in_features", "out_features"))
    return partial(Dense, *sizes, bias=bool(config.get("bias", True)), activation=activation)


def _check_settings(path: Path, folder: Path, name: str) -> None:
    """Refuse what would change the texts before they are tokenised."""
    own = folder / "sentence_bert_config.json"
    if own.is_file() and read_json(own).get("do_lower_case"):
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


def _length(folder: Path, inner: LoadedModel) -> int | None:
    own = folder / "sentence_bert_config.json"
    told = read_json(own).get("max_seq_length") if own.is_file() else None
    if not isinstance(told, int) or told < 1:
        return inner.max_length
    return told if inner.max_length is None else min(told, inner.max_length)
