"""Checkpoints with wrong values: refused in one line, whatever the libraries make of them."""

import copy
import json
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from repalign.exceptions import ModelError, RepalignError
from repalign.models.capture import make_views, probe_shapes
from repalign.models.encoder import panics_as_errors, running
from repalign.models.inputs.text import load_text_inputs
from repalign.models.load import choose_image_inputs, load_encoder

VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 3, 7, 10**6, 10**9, 10**30, 0.0, -0.5, float("nan"), float("inf"),
    "", "x", "relu", "\x00", [], [1], [0, 0], ["a", None], {}, {"a": 1}, [[[]]],
)  # fmt: skip
MODELS = ("gpt_neox", "llama", "mistral", "roberta", "vit", "vit_mae", "resnet")
TIMM = ("vit", "resnet", "convnext")


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Fail when the block takes longer, which no checkpoint of these sizes may."""

    def fail(*_: object) -> None:
        raise KeyboardInterrupt(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def use(directory: Path) -> str:
    """Load a checkpoint as far as an extraction would; return the error, or nothing."""
    try:
        with at_most(30):
            model = load_encoder(str(directory))
            if model.family.kind == "text":
                encoder = load_text_inputs(model)
                encoder.states(encoder.prepare("the cat sat"), "1")
                size = None
            else:
                preprocess = choose_image_inputs(model)
                size = preprocess.size
                preprocess(Image.new("RGB", (50, 40)))
            views = make_views(model, ("final", "0"))
            probe_shapes(model, [view.tap for view in views], size)
    except RepalignError as error:
        return str(error)
    return ""


def mutate(value: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Change, drop, nest or exchange some values of a config."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2))):
        keys = sorted(value)
        key = rng.choice(keys)
        kind = rng.random()
        if kind < 0.1:
            del value[key]
        elif kind < 0.2:
            value[key] = value[rng.choice(sorted(value))] if value else None
        elif isinstance(value[key], dict) and value[key] and kind < 0.8:
            value[key] = mutate(value[key], rng)
        else:
            value[key] = rng.choice(VALUES)
        if not value:
            break
    return value


def damage(directory: Path, files: tuple[str, ...], seed: int) -> Callable[[], None]:
    """Damage one of the files of a checkpoint; the result puts it right again."""
    rng = random.Random(seed)
    path = directory / rng.choice([file for file in files if (directory / file).exists()])
    whole = path.read_bytes()
    path.write_text(json.dumps(mutate(json.loads(whole), rng)))
    return lambda: path.write_bytes(whole) and None


FILES = ("config.json", "config.json", "preprocessor_config.json", "tokenizer_config.json")


@pytest.fixture(scope="module")
def checkpoints(tiny: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("damage")
    ours = [tiny.save_transformers(root / name, name) for name in MODELS]
    return ours + [tiny.save_timm(root / f"timm-{name}", name) for name in TIMM]


def tried(checkpoints: list[Path], seeds: range) -> dict[bool, int]:
    counts = {True: 0, False: 0}
    for seed in seeds:
        directory = checkpoints[seed % len(checkpoints)]
        mend = damage(directory, FILES, seed)
        try:
            error = use(directory)
        finally:
            mend()
        assert "\n" not in error
        counts[bool(error)] += 1
    return counts


def test_damaged_configs_are_refused_in_one_line_or_work(checkpoints: list[Path]) -> None:
    counts = tried(checkpoints, range(60))
    assert counts[True] > 15, "damage must show"
    assert counts[False] > 5, "most fields do not matter"
    assert [use(directory) for directory in checkpoints] == [""] * len(checkpoints)


@pytest.mark.faults
def test_many_damaged_configs_are_refused_in_one_line_or_work(checkpoints: list[Path]) -> None:
    counts = tried(checkpoints, range(60, 1000))
    assert counts[True] > 200


def test_damaged_tokenizers_are_refused_in_one_line_or_work(
    tiny: ModuleType, tmp_path: Path
) -> None:
    directory = tiny.save_transformers(tmp_path / "neox", "gpt_neox")
    errors = []
    for seed in range(40):
        mend = damage(directory, ("tokenizer.json",), seed)
        errors.append(use(directory))
        mend()
    assert all("\n" not in error for error in errors)
    assert sum(map(bool, errors)) > 10


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("gpt_neox", {"num_hidden_layers": 10**6}, "num_hidden_layers 1000000; .*1024"),
        ("gpt_neox", {"hidden_size": 2**20}, "values, .* bytes"),
        ("gpt2", {"n_positions": 2**20}, "belong together"),
        ("gpt_neox", {"num_attention_heads": 0}, "GPTNeoXModel"),
        ("resnet", {"depths": [600, 600]}, "depths 1200; .*1024"),
        ("vit", {"image_size": 10**6}, "belong together"),
        ("bert", {"num_labels": 10**7}, "num_labels"),
    ],
)
def test_sizes_are_bounded_before_anything_is_built(
    tiny: ModuleType, tmp_path: Path, family: str, changes: dict[str, Any], message: str
) -> None:
    directory = tiny.save_transformers(tmp_path / family, family)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, **changes}))
    with at_most(20), pytest.raises(ModelError, match=message):
        load_encoder(str(directory))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": 10**6}, "depth 1000000; .*1024"),
        ({"embed_dim": 2**18}, "shape"),
        ({"num_heads": 5}, "timm cannot build"),
    ],
)
def test_sizes_of_timm_are_bounded_before_anything_is_built(
    tiny: ModuleType, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    directory = tiny.save_timm(tmp_path / "vit", "vit")
    config = json.loads((directory / "config.json").read_text())
    config["model_args"] |= changes
    (directory / "config.json").write_text(json.dumps(config))
    with at_most(20), pytest.raises(ModelError, match=message):
        load_encoder(str(directory))


@contextmanager
def at_most_allocated(monkeypatch: pytest.MonkeyPatch, n_values: int) -> Iterator[None]:
    """Fail where a module of more values than that takes memory."""
    allocate = torch.nn.Parameter.__new__

    def watched(cls: Any, data: Any = None, *rest: Any, **named: Any) -> Any:
        is_large = data is not None and data.device.type != "meta" and data.numel() > n_values
        assert not is_large, f"{data.numel()} values were allocated"
        return allocate(cls, data, *rest, **named)

    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.Parameter, "__new__", watched)
        yield


def test_parts_of_sentence_transformers_take_no_more_than_their_weights(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tiny.save_transformers(tmp_path / "bert", "bert")
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Dense", "type": "sentence_transformers.models.Dense"},
    ]
    (directory / "modules.json").write_text(json.dumps(modules))
    for folder, config in (("1_Pooling", {}), ("2_Dense", {"in_features": 8, "out_features": 8})):
        (directory / folder).mkdir()
        (directory / folder / "config.json").write_text(json.dumps(config))
    weights = {"linear.weight": torch.zeros(8, 8), "linear.bias": torch.zeros(8)}
    save_file(weights, directory / "2_Dense" / "model.safetensors")
    load_encoder(str(directory))
    large = {"in_features": 2**16, "out_features": 2**16}
    (directory / "2_Dense" / "config.json").write_text(json.dumps(large))
    with at_most_allocated(monkeypatch, 2**20), pytest.raises(ModelError, match="shape"):
        load_encoder(str(directory))


def test_an_image_encoder_of_open_clip_takes_no_more_than_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vision = {"layers": 2, "width": 2**14, "head_width": 64, "patch_size": 16, "image_size": 224}
    config = {"model_cfg": {"vision_cfg": vision}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    weights = {"visual.conv1.weight": torch.zeros(8, 3, 16, 16)}
    save_file(weights, tmp_path / "open_clip_model.safetensors")
    with at_most_allocated(monkeypatch, 2**20), pytest.raises(ModelError):
        load_encoder(f"{tmp_path}::vision")


class PanicException(BaseException):
    """As a panic of a Rust library comes out of it."""


def test_a_module_that_fails_is_one_line_and_an_exhausted_memory_passes() -> None:
    module = torch.nn.Identity()
    for error in (RecursionError(), AssertionError("torn\napart"), KeyError("x")):
        with pytest.raises(ModelError, match=r"^Identity .*$"), running(module):
            raise error
    with pytest.raises(RuntimeError, match="CUDA"), running(module):
        raise RuntimeError("CUDA out of memory. Tried to allocate 1 GiB")


def test_a_panic_of_a_library_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="torn"), panics_as_errors():
        raise PanicException("torn\napart")
    with pytest.raises(KeyboardInterrupt), panics_as_errors():
        raise KeyboardInterrupt
