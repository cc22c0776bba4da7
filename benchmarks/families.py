"""Every family that can be tried without a download, through extract and beside it.

Tiny random checkpoints of transformers, random weights for timm and torchvision, saved and loaded
by the real code. For each: does it open, or why not; the largest difference of its rows from a
bare pass of the library's own model, one sample at a time, with copying hooks, over the root mean
square of that layer; and the largest difference between a sample alone and in a batch. What timm
builds at less depth and for smaller images is built so; the table says how.

    python benchmarks/families.py --write docs/families.md    # with 320 architectures of timm
    python benchmarks/families.py --timm 40 --torchvision 5
"""

import argparse
import gc
import importlib.util
import itertools
import json
import math
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn

from repalign.exceptions import RepalignError
from repalign.models.inputs.sounds import load_sound_encoder, pad_sounds
from repalign.models.inputs.text import load_text_encoder, pad_batch
from repalign.models.loaders.load import load_model
from repalign.models.loaders.loaded import LoadedModel
from repalign.models.views.capture import run_capturing
from repalign.models.views.layers import Tap
from repalign.models.views.pooling import Batch
from repalign.models.views.views import View, encode_batch, fit_views, make_views, probe_shapes

WRONG = 1e-3
LARGEST = 60_000_000
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Line:
    """One row of the table; ``reason`` is empty where the model opens.

    ``built`` says what was made smaller, ``without`` which layers were refused and why.
    """

    package: str
    name: str
    layers: int = 0
    gap: float = 0.0
    batch_gap: float = 0.0
    reason: str = ""
    built: str = ""
    without: str = ""


def tiny_models() -> Any:
    """Load the makers of tiny checkpoints that the tests use."""
    spec = importlib.util.spec_from_file_location("tiny", ROOT / "tests" / "tiny_models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def relative(ours: Tensor, theirs: Tensor) -> float:
    """Largest difference over the root mean square; infinite for zeros and for what is no number.

    A comparison of zeros would show nothing.
    """
    size = float(theirs.square().mean().sqrt())
    gap = float((ours - theirs).abs().max())
    return gap / size if size > 0 and math.isfinite(gap / size) else math.inf


def copied(module: nn.Module, taps: list[Tap], run: Any) -> dict[str, Tensor]:
    """Tensors of taps by label, copied when their module ran; what ran returned by ``""``."""
    found: dict[str, Tensor] = {}

    def first(value: Any) -> Tensor | None:
        if isinstance(value, Tensor):
            return value
        if not isinstance(value, dict | tuple | list):
            return None
        parts = list(value.values() if isinstance(value, dict) else value)
        plain = next((part for part in parts if isinstance(part, Tensor)), None)
        inner = (found for part in parts if (found := first(part)) is not None)
        return plain if plain is not None else next(inner, None)

    def after(label: str) -> Any:
        def hook(_module: Any, _arguments: Any, output: Any) -> None:
            tensor = first(output)
            if tensor is not None:
                found[label] = tensor.clone()

        return hook

    def before(label: str) -> Any:
        def hook(_module: Any, arguments: Any, named: Any) -> None:
            tensor = first([*arguments, *named.values()])
            if tensor is not None:
                found[label] = tensor.clone()

        return hook

    handles = []
    for tap in taps:
        if tap.side == "returned":
            continue
        part = module.get_submodule(tap.module)
        if tap.side == "input":
            handles.append(part.register_forward_pre_hook(before(tap.label), with_kwargs=True))
        else:
            handles.append(part.register_forward_hook(after(tap.label)))
    with torch.no_grad():
        returned = run()
    for handle in handles:
        handle.remove()
    return {"": returned, **found} if isinstance(returned, Tensor) else found


def pooled(hidden: Tensor, patches: int | None, n_own: int) -> Tensor:
    """Mean over positions by another rule than extract's: the last so many tokens are patches."""
    if hidden.ndim == 2:
        return hidden
    if hidden.ndim == 4:
        sides = hidden.shape[1:]
        return hidden.mean((1, 2)) if sides[0] == sides[1] != sides[2] else hidden.mean((2, 3))
    if patches is not None and n_own and hidden.shape[1] > patches:
        return hidden[:, -patches:].mean(1)
    return hidden.mean(1)


def chosen_layers(model: LoadedModel) -> tuple[list[str], str]:
    """The final state, and those of some numbered layers that can be taken; why others cannot."""
    count = len(model.layers.blocks)
    chosen, refused = ["final"], []
    for number in sorted({0, 1, (count + 1) // 2, count}) if count else ():
        try:
            views = make_views(model, (str(number),))
            fit_views(model, views, probe_shapes(model, [views[0].tap]))
        except RepalignError as error:
            refused.append(f"{number}: {error}")
            continue
        chosen.append(str(number))
    return chosen, "; ".join(refused)


def images_of(model: LoadedModel, plain: Any, run: Any, library: str, name: str) -> Line:
    """Compare an image model with a bare pass."""
    assert model.image_size is not None
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(3, *model.image_size, generator=generator)
    chosen, refused = chosen_layers(model)
    views: tuple[View, ...] = make_views(model, chosen)
    views = fit_views(model, views, probe_shapes(model, [view.tap for view in views]))
    taps = [view.tap for view in views]
    together = encode_batch(model, views, Batch({"pixel_values": pixels}))
    gap = batch_gap = 0.0
    for k in range(len(pixels)):
        alone = encode_batch(model, views, Batch({"pixel_values": pixels[k : k + 1]}))
        bare = copied(plain, taps, lambda k=k: run(pixels[k : k + 1]))
        whole = bare.get("", bare.get("final"))
        n_own = model.prefix_tokens
        patches = None
        if n_own and whole is not None and "final" in bare:
            patches = bare["final"].shape[1] - n_own
        for view in views:
            hidden = bare.get(view.tap.label, bare.get(""))
            assert hidden is not None
            ours = together[view.key][k : k + 1]
            gap = max(gap, relative(ours, pooled(hidden, patches, n_own)))
            batch_gap = max(batch_gap, relative(ours, alone[view.key]))
    return Line(library, name, len(views), gap, batch_gap, without=refused)


def texts_of(model: LoadedModel, plain: Any, texts: tuple[str, ...], name: str) -> Line:
    """Compare a text model with a bare pass, one text at a time and without a mask."""
    encoder = load_text_encoder(model)
    ids = encoder.encode(list(texts))
    chosen, refused = chosen_layers(model)
    views = make_views(model, chosen, ("mean",))
    taps = [view.tap for view in views]

    def rows(part: list[Any]) -> dict[str, Tensor]:
        inputs, lengths = pad_batch(part, encoder.pad_id, masked=model.needs_mask)
        if "attention_mask" in inputs:
            width = inputs["attention_mask"].shape[-1]
            inputs["attention_mask"] = inputs["attention_mask"].expand(-1, -1, width, -1)
        return encode_batch(model, views, Batch(inputs, lengths))

    together = rows(ids)
    gap = batch_gap = 0.0
    for k, tokens in enumerate(ids):
        alone = rows([tokens])
        bare = copied(
            plain, taps, lambda t=tokens: plain(torch.from_numpy(t)[None]).last_hidden_state
        )
        for view in views:
            hidden = bare[""] if view.tap.label == "final" else bare[view.tap.label]
            ours = together[view.key][k : k + 1]
            gap = max(gap, relative(ours, hidden.mean(1)))
            batch_gap = max(batch_gap, relative(ours, alone[view.key]))
    return Line("transformers", name, len(views), gap, batch_gap, without=refused)


def sounds_of(model: LoadedModel, plain: Any, name: str) -> Line:
    """Compare a model of sounds with a bare pass, one sound at a time and without a mask."""
    encoder = load_sound_encoder(model)
    rng = np.random.default_rng(0)
    # where padding is felt, sounds of one length share a batch
    seconds = (0.5, 0.5, 0.5) if encoder.sound.is_apart else (0.5, 0.31, 0.8)
    waves = [rng.normal(size=int(16_000 * s)).astype(np.float32) for s in seconds]
    sounds = [encoder(wave, 16_000) for wave in waves]
    chosen, refused = chosen_layers(model)
    views = make_views(model, chosen)
    together = encode_batch(model, views, Batch(*pad_sounds(sounds, encoder.sound)))
    gap = batch_gap = 0.0
    for k, sound in enumerate(sounds):
        inputs, lengths = pad_sounds([sound], encoder.sound)
        alone = encode_batch(model, views, Batch(inputs, lengths))
        values = torch.from_numpy(sound.values)[None]
        taps = [view.tap for view in views]
        bare = copied(plain, taps, lambda v=values: plain(v).last_hidden_state)
        for view in views:
            hidden = bare[""] if view.tap.label == "final" else bare[view.tap.label]
            ours = together[view.key][k : k + 1]
            gap = max(gap, relative(ours, hidden[:, : int(lengths[0])].mean(1)))
            batch_gap = max(batch_gap, relative(ours, alone[view.key]))
    return Line("transformers", name, len(views), gap, batch_gap, without=refused)


def try_sounds(tiny: Any, work: Path) -> Iterator[Line]:
    for name in tiny.SOUNDS:
        whole = tiny.save_sound_model(work / name, name)
        plain = whole.get_encoder() if whole.config.is_encoder_decoder else whole
        try:
            yield sounds_of(load_model(str(work / name)), plain.eval(), name)
        except RepalignError as error:
            yield Line("transformers", name, reason=str(error))


def try_transformers(tiny: Any, work: Path) -> Iterator[Line]:
    names = [*tiny.TRANSFORMERS, *tiny.OTHERS]
    for name in names:
        directory = work / name
        if name in tiny.OTHERS:
            whole = tiny.save_other(directory, name)
        else:
            tiny.save_transformers(directory, name)
            whole = tiny.build_transformers(name)
        for part in ("text", "vision") if name in ("clip", "siglip") else ("",):
            plain = getattr(whole, f"{part}_model") if part else whole
            if name == "t5":
                plain = transformers.T5EncoderModel.from_pretrained(directory)
            elif plain.config.is_encoder_decoder:
                plain = plain.get_encoder()
            full = f"{name}::{part}" if part else name
            try:
                model = load_model(str(directory) + (f"::{part}" if part else ""))
                if model.family.kind == "text":
                    yield texts_of(model, plain.eval(), tiny.TEXTS, full)
                else:
                    yield images_of(model, plain.eval(), image_run(plain), "transformers", full)
            except RepalignError as error:
                yield Line("transformers", full, reason=str(error))


def image_run(plain: Any) -> Any:
    def run(pixels: Tensor) -> Tensor:
        more = {}
        if plain.config.model_type == "vit_mae":
            plain.config.mask_ratio = 0.0
            more["noise"] = torch.arange(plain.embeddings.patch_embeddings.num_patches)[
                None
            ].float()
        returned = plain(pixel_values=pixels, **more)
        last = returned.last_hidden_state
        found: Tensor = returned.pooler_output.flatten(1) if last.ndim == 4 else last
        return found

    return run


SMALL = ("atto", "femto", "pico", "nano", "xxs", "xxt", "tiny", "_xs", "_t", "small", "_s", "mini")
SMALL += ("micro", "_035", "_050", "18", "_b0", "_m0", "_x0", "_0")


def timm_names() -> list[str]:
    """Architectures of every family of timm in turn, those that sound small first."""

    def rank(name: str) -> tuple[int, int, str]:
        found = [place for place, word in enumerate(SMALL) if word in name]
        return (min(found, default=len(SMALL)), len(name), name)

    queues = [sorted(timm.list_models(module=m), key=rank) for m in timm.list_modules()]
    turns = range(max(map(len, queues)))
    return [queue[k] for k in turns for queue in queues if k < len(queue)]


LESS = (
    {"depth": 3},
    {"depths": [1, 1, 2, 1]},
    {"layers": [1, 1, 2, 1]},
    {"depths": [1, 2, 1]},
    {"depths": [1, 1, 1, 1, 1]},
)
NARROWER = ({"embed_dim": 192, "num_heads": 3}, {"embed_dim": [32, 64, 128, 256]})
SIDES = (96, 128, 160, 192, 224, 256)


def outline(library: str, name: str, **arguments: Any) -> Any:
    """The architecture on the meta device, None where it cannot be built so."""
    try:
        with torch.device("meta"):
            if library == "timm":
                return timm.create_model(name, **arguments)
            return torchvision.models.get_model(name, **arguments)
    except Exception:  # noqa: BLE001 - an argument that it does not take, of whatever kind
        return None


def size_of(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def smallest(name: str) -> tuple[dict[str, Any], int, int]:
    """Arguments that make an architecture of timm small, the side of its images, its size."""
    model = outline("timm", name)
    if model is None:
        return {}, 224, 0
    native = model.pretrained_cfg.get("input_size", (3, 224, 224))[1]
    arguments: dict[str, Any] = {}
    for choices in (LESS, NARROWER):
        for less in choices:
            other = outline("timm", name, **arguments, **less)
            if other is None or size_of(model) < 3_000_000 or size_of(other) >= size_of(model):
                continue
            # depths may not be told of everywhere in a model
            if runs(other, native) or not runs(model, native):
                model, arguments = other, {**arguments, **less}
                break
    for side in SIDES:
        for sized in ({"img_size": side}, {}):
            other = outline("timm", name, **arguments, **sized) if side < native else None
            if other is not None and runs(other, side):
                return {**arguments, **sized}, side, size_of(other)
    return arguments, native, size_of(model)


def runs(model: Any, side: int) -> bool:
    """Whether a model on the meta device takes images of that side."""
    try:
        with torch.no_grad(), torch.device("meta"):
            features = model.eval().forward_features(torch.zeros(2, 3, side, side))
            model.forward_head(features, pre_logits=True)
    except Exception:  # noqa: BLE001 - whatever a size does to a model
        return False
    return True


def takes(model: Any, side: int) -> bool:
    """Whether a classifier on the meta device takes images of that side."""
    try:
        with torch.no_grad(), torch.device("meta"):
            model.eval()(torch.zeros(2, 3, side, side))
    except Exception:  # noqa: BLE001 - whatever a size does to a model
        return False
    return True


def roughen(module: nn.Module) -> nn.Module:
    """Fill what begins as zeros or nearly so, behind which a wrong layer would not show."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in module.named_parameters():
            if float(tensor.abs().max()) < 1e-3:
                noise = torch.randn(tensor.shape, generator=generator)
                tensor.copy_(noise * 0.05 if "bias" in name else noise.abs() * 0.2 + 0.1)
    return module.eval()


def save_timm(name: str, work: Path, arguments: dict[str, Any], side: int) -> Any:
    """Save an architecture of timm as its hub does; returns the model."""
    torch.manual_seed(0)
    plain = roughen(timm.create_model(name, num_classes=10, **arguments))
    channels = plain.pretrained_cfg.get("input_size", (3,))[0]
    config = {
        "architecture": name,
        "model_args": arguments,
        "pretrained_cfg": {"input_size": [channels, side, side]},
    }
    (work / "config.json").write_text(json.dumps(config))
    torch.save(plain.state_dict(), work / "pytorch_model.bin")
    return plain


def features_of_timm(plain: Any) -> Any:
    def run(pixels: Tensor) -> Tensor:
        features: Tensor = plain.forward_features(pixels)
        try:
            return plain.forward_head(features, pre_logits=True)  # type: ignore[no-any-return]
        except NotImplementedError:
            return features

    return run


def try_timm(names: Iterable[str], work: Path, seconds: float) -> Iterator[Line]:
    started = time.perf_counter()
    for name in names:
        if time.perf_counter() - started > seconds:
            return
        arguments, side, size = smallest(name)
        if size > LARGEST:
            continue
        built = ", ".join(f"{key}={value}" for key, value in arguments.items())
        built = f"{built}, {side} pixels".removeprefix(", ")
        line = Line("timm", name)
        try:
            plain = save_timm(name, work, arguments, side)
            model = load_model(str(work))
            line = images_of(model, plain, features_of_timm(plain), "timm", name)
        except Exception as error:  # noqa: BLE001 - a crash is a line of the table
            line = replace(line, reason=said(error, work))
        yield replace(line, built=built)
        gc.collect()


def said(error: Exception, work: Path) -> str:
    """What an error says; of anything but a refusal of ours also its kind."""
    text = (str(error).splitlines() or [""])[0].replace(str(work), "").replace(work.name, "…")
    return text if isinstance(error, RepalignError) else f"CRASH {type(error).__name__}: {text}"


def try_torchvision(names: Iterable[str], work: Path, seconds: float) -> Iterator[Line]:
    started = time.perf_counter()
    for name in names:
        if time.perf_counter() - started > seconds:
            return
        torch.manual_seed(0)
        weights = work / "weights.pth"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = torchvision.models.get_model(name, weights=None)
        torch.save(roughen(plain).state_dict(), weights)
        side = next((s for s in (96, 128) if takes(outline("torchvision", name), s)), 224)
        line = Line("torchvision", name)
        try:
            model = load_model(f"torchvision:{name}@{weights}")
            model = replace(model, image_size=(3, side, side))
            line = images_of(model, plain, plain, "torchvision", name)
        except Exception as error:  # noqa: BLE001 - a crash is a line of the table
            line = replace(line, reason=said(error, work))
        yield replace(line, built=f"{side} pixels")
        del plain
        gc.collect()


IN_PLACE = (
    *(("torchvision", name) for name in ("resnet18", "resnet50", "googlenet", "densenet121")),
    *(("torchvision", name) for name in ("efficientnet_b0", "convnext_tiny")),
    *(("timm", name) for name in ("resnet18", "seresnet18", "dla34", "hrnet_w18_small")),
)


def written_in_place() -> list[str]:
    """A table: every module of some architectures beside what a copying hook sees of it."""
    table = ["", "## What is written in place afterwards", ""]
    table += [
        "Two images of 64 pixels: what is captured of every module, beside a hook that copies"
    ]
    table += ["at once; and how many of the tensors were written into later in the pass.", ""]
    table += ["| model | modules | overwritten later | largest difference |", "|---|---|---|---|"]
    for library, name in IN_PLACE:
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = (
                timm.create_model(name)
                if library == "timm"
                else torchvision.models.get_model(name, weights=None)
            ).eval()
        pixels = torch.randn(2, 3, 64, 64)
        taps = [Tap(part, part) for part, _ in module.named_modules() if part]
        expected = copied(module, taps, lambda m=module, p=pixels: m(p))
        expected.pop("")
        taps = [tap for tap in taps if tap.label in expected]
        overwritten: set[Tap] = set()
        with torch.no_grad():
            found = run_capturing(module, taps, lambda m=module, p=pixels: m(p), overwritten)
        gap = max(float((found[key] - tensor).abs().max()) for key, tensor in expected.items())
        table.append(f"| {library} {name} | {len(taps)} | {len(overwritten)} | {gap:g} |")
    return table


def render(lines: list[Line]) -> str:
    opened = [line for line in lines if not line.reason]
    wrong = [line for line in opened if not max(line.gap, line.batch_gap) <= WRONG]
    largest = max((max(line.gap, line.batch_gap) for line in opened), default=0.0)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    text = [
        "# Model families",
        "",
        "Made by `python benchmarks/families.py --write docs/families.md` with random weights: "
        f"{versions}, timm {timm.__version__}, torchvision {torchvision.__version__}.",
        "",
        "For `final` and up to four numbered layers: the largest difference from a bare pass of "
        "the library's own model, one sample at a time, with copying hooks, and from the same "
        "sample alone, both over the root mean square of the layer. Sounds are of other lengths, "
        "but where only one length shares a batch. Most architectures of timm were built with "
        "less depth or width and for smaller images, as their column says, and none with more "
        f"than {LARGEST // 10**6} million parameters.",
        "",
        f"{len(lines)} tried, {len(opened)} open, {len(lines) - len(opened)} refused, "
        f"{len(wrong)} wrong (beyond {WRONG:g}); the largest difference is {largest:.1e}.",
    ]
    for library in dict.fromkeys(line.package for line in lines):
        text += ["", f"## {library}", ""]
        text += ["| model | layers | from a bare pass | in a batch | built with | layers refused |"]
        text += ["|---|---|---|---|---|---|"]
        for line in lines:
            if line.package != library:
                continue
            if line.reason:
                reason = line.reason.replace("|", "/")
                text.append(f"| {line.name} | refused: {reason} | | | {line.built} | |")
            else:
                gaps = f"{line.gap:.1e} | {line.batch_gap:.1e}"
                text.append(
                    f"| {line.name} | {line.layers} | {gaps} | {line.built} | {line.without} |"
                )
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timm", type=int, default=320, help="how many architectures")
    parser.add_argument("--seconds", type=float, default=3600, help="most time for each library")
    parser.add_argument("--torchvision", type=int, default=80, help="how many classifiers")
    parser.add_argument("--no-transformers", action="store_true")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.mkdtemp()), help="goes on here")
    parser.add_argument("--write", type=Path, help="write the table to this file")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    arguments.cache.mkdir(parents=True, exist_ok=True)

    def note(found: Iterator[Line]) -> None:
        for line in found:
            with (arguments.cache / f"{line.package}.jsonl").open("a") as file:
                file.write(json.dumps(asdict(line)) + "\n")
            print(line, file=sys.stderr, flush=True)

    def untried(library: str, names: list[str]) -> list[str]:
        tried = {line.name for line in cached(arguments.cache) if line.package == library}
        return [name for name in names if name not in tried]

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if not arguments.no_transformers:
            tiny = tiny_models()
            note(try_transformers(tiny, work))
            note(try_sounds(tiny, work))
        tried = sum(line.package == "timm" for line in cached(arguments.cache))
        found = try_timm(untried("timm", timm_names()), work, arguments.seconds)
        note(itertools.islice(found, max(0, arguments.timm - tried)))
        names = torchvision.models.list_models(torchvision.models)
        names = untried("torchvision", names[: arguments.torchvision])
        note(try_torchvision(names, work, arguments.seconds))
    lines = list(cached(arguments.cache))
    table = render(lines) + "\n".join(written_in_place()) + "\n"
    if arguments.write is None:
        print(table)
    else:
        arguments.write.write_text(table)


def cached(folder: Path) -> Iterator[Line]:
    """What has been tried so far, by library."""
    for library in ("transformers", "torchvision", "timm"):
        path = folder / f"{library}.jsonl"
        if path.is_file():
            yield from (Line(**json.loads(line)) for line in path.read_text().splitlines())


if __name__ == "__main__":
    main()
