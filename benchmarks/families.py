"""Every family that can be tried without a download, through extract and beside it.

Tiny random checkpoints of transformers, random weights for timm and torchvision, saved and loaded
by the real code. For each: does it open, or why not; the largest difference of its rows from a
bare pass of the library's own model, one sample at a time, with copying hooks, over the root mean
square of that layer; and the largest difference between a sample alone and in a batch.

    python benchmarks/families.py --write docs/families.md    # with 300 architectures of timm
    python benchmarks/families.py --timm 40 --torchvision 5
"""

import argparse
import gc
import importlib.util
import json
import math
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn

from repalign.exceptions import RepalignError
from repalign.models.inputs.text import load_text_encoder, pad_batch
from repalign.models.loaders.load import load_model
from repalign.models.loaders.loaded import LoadedModel
from repalign.models.views.layers import Tap
from repalign.models.views.pooling import Batch
from repalign.models.views.views import View, encode_batch, fit_views, make_views, probe_shapes

WRONG = 1e-3
LARGEST = 60_000_000
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Line:
    """One row of the table; ``reason`` is empty where the model opens."""

    library: str
    name: str
    layers: int = 0
    gap: float = 0.0
    batch_gap: float = 0.0
    reason: str = ""


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
        parts = value.values() if hasattr(value, "values") else value
        return next((part for part in parts or () if isinstance(part, Tensor)), None)

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


def chosen_layers(model: LoadedModel) -> list[str]:
    """The final state, and those of some numbered layers that can be taken."""
    count = len(model.layers.blocks)
    chosen = ["final"]
    for number in sorted({0, 1, (count + 1) // 2, count}) if count else ():
        try:
            views = make_views(model, (str(number),))
            fit_views(model, views, probe_shapes(model, [views[0].tap]))
        except RepalignError:
            continue
        chosen.append(str(number))
    return chosen


def images_of(model: LoadedModel, plain: Any, run: Any, library: str, name: str) -> Line:
    """Compare an image model with a bare pass."""
    assert model.image_size is not None
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(3, *model.image_size, generator=generator)
    views: tuple[View, ...] = make_views(model, chosen_layers(model))
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
    return Line(library, name, len(views), gap, batch_gap)


def texts_of(model: LoadedModel, plain: Any, texts: tuple[str, ...], name: str) -> Line:
    """Compare a text model with a bare pass, one text at a time and without a mask."""
    encoder = load_text_encoder(model)
    ids = encoder.encode(list(texts))
    views = make_views(model, chosen_layers(model), ("mean",))
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
    return Line("transformers", name, len(views), gap, batch_gap)


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


def timm_names(count: int) -> list[str]:
    """Architectures of every family of timm in turn, those that sound small first."""

    def rank(name: str) -> tuple[int, int, str]:
        found = [place for place, word in enumerate(SMALL) if word in name]
        return (min(found, default=len(SMALL)), len(name), name)

    queues = [sorted(timm.list_models(module=m), key=rank) for m in timm.list_modules()]
    turns = range(max(map(len, queues)))
    return [queue[k] for k in turns for queue in queues if k < len(queue)][:count]


def is_small(library: str, name: str) -> bool:
    """Whether it has few enough parameters to be tried in little memory."""
    try:
        with torch.device("meta"):
            make = timm.create_model if library == "timm" else torchvision.models.get_model
            model = make(name)
    except Exception:  # noqa: BLE001 - what cannot be built without memory is built with it
        return True
    return sum(parameter.numel() for parameter in model.parameters()) < LARGEST


def try_library(library: str, names: list[str], work: Path, seconds: float) -> Iterator[Line]:
    started = time.perf_counter()
    for name in names:
        if time.perf_counter() - started > seconds:
            return
        if not is_small(library, name):
            continue
        torch.manual_seed(0)
        weights = work / "weights.pth"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if library == "timm":
                plain = timm.create_model(name, pretrained=False)
            else:
                plain = torchvision.models.get_model(name, weights=None)
        torch.save(plain.state_dict(), weights)
        plain.eval()

        def run(pixels: Tensor, plain: Any = plain) -> Tensor:
            if library == "timm":
                found: Tensor = plain.forward_features(pixels)
                return plain.forward_head(found, pre_logits=True)  # type: ignore[no-any-return]
            return plain(pixels)  # type: ignore[no-any-return]

        try:
            model = load_model(f"{library}:{name}@{weights}")
            yield images_of(model, plain, run, library, name)
        except (RepalignError, RuntimeError) as error:
            kind = "" if isinstance(error, RepalignError) else f"{type(error).__name__}: "
            yield Line(
                library, name, reason=(kind + str(error).splitlines()[0]).replace(str(work), "")
            )
        del plain
        gc.collect()


def render(lines: list[Line]) -> str:
    opened = [line for line in lines if not line.reason]
    wrong = [line for line in opened if not max(line.gap, line.batch_gap) <= WRONG]
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    text = [
        "# Model families",
        "",
        "Made by `python benchmarks/families.py --write docs/families.md` with random weights: "
        f"{versions}, timm {timm.__version__}, torchvision {torchvision.__version__}.",
        "",
        "For `final` and up to four numbered layers: the largest difference from a bare pass of "
        "the library's own model, one sample at a time, with copying hooks, and from the same "
        "sample alone, both over the root mean square of the layer.",
        "",
        f"{len(lines)} tried, {len(opened)} open, {len(lines) - len(opened)} refused, "
        f"{len(wrong)} wrong (beyond {WRONG:g}).",
    ]
    for library in dict.fromkeys(line.library for line in lines):
        text += ["", f"## {library}", "", "| model | layers | from a bare pass | in a batch |"]
        text += ["|---|---|---|---|"]
        for line in lines:
            if line.library != library:
                continue
            if line.reason:
                text.append(f"| {line.name} | refused: {line.reason.replace('|', '/')} | | |")
            else:
                text.append(
                    f"| {line.name} | {line.layers} | {line.gap:.1e} | {line.batch_gap:.1e} |"
                )
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timm", type=int, default=300, help="how many architectures")
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
            with (arguments.cache / f"{line.library}.jsonl").open("a") as file:
                file.write(json.dumps(asdict(line)) + "\n")
            print(line, file=sys.stderr, flush=True)

    def untried(library: str, names: list[str]) -> list[str]:
        tried = {line.name for line in cached(arguments.cache) if line.library == library}
        return [name for name in names if name not in tried]

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if not arguments.no_transformers:
            note(try_transformers(tiny_models(), work))
        names = torchvision.models.list_models(torchvision.models)
        names = untried("torchvision", names[: arguments.torchvision])
        note(try_library("torchvision", names, work, arguments.seconds))
        if arguments.timm:
            names = untried("timm", timm_names(arguments.timm))
            note(try_library("timm", names, work, arguments.seconds))
    table = render(list(cached(arguments.cache)))
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
