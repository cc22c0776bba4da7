"""Every family that can be tried without a download, through extract and beside it.

Tiny random checkpoints of transformers, random weights for timm and torchvision, saved and loaded
by the real code. For each: does it open, or why not; the largest difference of its rows from a
bare pass of the library's own model, one sample at a time, with copying hooks, over the root mean
square of that layer; and the largest difference between a sample alone and in a batch. What timm
builds at less depth and for smaller images is built so; the table says how.

    pip install sentence-transformers open_clip_torch         # or these two are left out
    python benchmarks/families.py --write docs/families.md    # with 320 architectures of timm
    python benchmarks/families.py --timm 40 --torchvision 5
"""

import argparse
import gc
import importlib.util
import itertools
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import families_composed as composed
import timm
import torch
import torchvision
import transformers
from bare_passes import (
    WRONG,
    Line,
    features_of_timm,
    images_of,
    mean_rows,
    roughen,
    sounds_of,
    texts_of,
)
from torch import Tensor, nn

from repalign.exceptions import RepalignError
from repalign.models.load import load_encoder

LARGEST = 60_000_000
ROOT = Path(__file__).parents[1]


def tiny_models() -> Any:
    """Load the makers of tiny checkpoints that the tests use."""
    spec = importlib.util.spec_from_file_location("tiny", ROOT / "tests" / "tiny_models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def try_sounds(tiny: Any, work: Path, names: Iterable[str]) -> Iterator[Line]:
    for name in names:
        whole = tiny.save_sound_model(work / name, name)
        plain = whole.get_encoder() if whole.config.is_encoder_decoder else whole
        try:
            yield sounds_of(load_encoder(str(work / name)), plain.eval(), name)
        except RepalignError as error:
            yield Line("transformers", name, reason=str(error))


def try_transformers(tiny: Any, work: Path, names: Iterable[str]) -> Iterator[Line]:
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
                model = load_encoder(str(directory) + (f"::{part}" if part else ""))
                if model.family.kind == "text":
                    bare = mean_rows(plain.eval())
                    yield texts_of(model, tiny.TEXTS, bare, "transformers", full)
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
            model = load_encoder(str(work))
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
            model = load_encoder(f"torchvision:{name}@{weights}")
            model = replace(model, image_size=(3, side, side))
            line = images_of(model, plain, plain, "torchvision", name)
        except Exception as error:  # noqa: BLE001 - a crash is a line of the table
            line = replace(line, reason=said(error, work))
        yield replace(line, built=f"{side} pixels")
        del plain
        gc.collect()


def render(lines: list[Line]) -> str:
    opened = [line for line in lines if not line.reason]
    wrong = [line for line in opened if not max(line.gap, line.batch_gap) <= WRONG]
    largest = max((max(line.gap, line.batch_gap) for line in opened), default=0.0)
    used = {"torch": torch, "transformers": transformers, "timm": timm, "torchvision": torchvision}
    versions = [f"{name} {module.__version__}" for name, module in used.items()]
    versions += composed.versions({line.package for line in lines})
    text = [
        "# Model families",
        "",
        "Made by `python benchmarks/families.py --write docs/families.md` with random weights: "
        f"{', '.join(versions)}.",
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

    def untried(library: str, names: Iterable[str]) -> list[str]:
        lines = (line for line in cached(arguments.cache) if line.package == library)
        tried = {line.name.split("::")[0] for line in lines}
        return [name for name in names if name not in tried]

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if not arguments.no_transformers:
            tiny = tiny_models()
            names = untried("transformers", [*tiny.TRANSFORMERS, *tiny.OTHERS])
            note(try_transformers(tiny, work, names))
            note(try_sounds(tiny, work, untried("transformers", tiny.SOUNDS)))
            if composed.is_installed("sentence_transformers"):
                names = untried(composed.SENTENCES, composed.SENTENCE_MODELS)
                note(composed.try_sentences(tiny, work, names))
            if composed.is_installed("open_clip"):
                note(composed.try_images(work, untried(composed.IMAGES, composed.IMAGE_MODELS)))
        tried = sum(line.package == "timm" for line in cached(arguments.cache))
        found = try_timm(untried("timm", timm_names()), work, arguments.seconds)
        note(itertools.islice(found, max(0, arguments.timm - tried)))
        names = torchvision.models.list_models(torchvision.models)
        names = untried("torchvision", names[: arguments.torchvision])
        note(try_torchvision(names, work, arguments.seconds))
    lines = list(cached(arguments.cache))
    table = render(lines)
    if arguments.write is None:
        print(table)
    else:
        arguments.write.write_text(table)


def cached(folder: Path) -> Iterator[Line]:
    """What has been tried so far, by library."""
    for library in ("transformers", composed.SENTENCES, composed.IMAGES, "torchvision", "timm"):
        path = folder / f"{library}.jsonl"
        if path.is_file():
            yield from (Line(**json.loads(line)) for line in path.read_text().splitlines())


if __name__ == "__main__":
    main()
