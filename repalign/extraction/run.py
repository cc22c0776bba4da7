"""Extraction: from a model and data to a store of embeddings."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from repalign.arguments import checked, is_a
from repalign.core.device import exact_float32
from repalign.data.image_arrays import ArrayImages
from repalign.data.open_data import open_data
from repalign.data.read_options import ReadOptions
from repalign.data.samples import Kind, Source
from repalign.exceptions import InputError
from repalign.extraction.batches import (
    Feed,
    Shard,
    parse_tokens,
    pin_batches,
    prefetch,
    samples_per_shard,
    select_samples,
)
from repalign.extraction.device import (
    Runner,
    casts,
    check_batch_invariance,
    choose_device,
    read_rank,
    rows_on_host,
)
from repalign.extraction.settings import ExtractProgress, ExtractResult, ExtractSettings, Speed
from repalign.files import file_sha256
from repalign.models.names import RECORDED_PACKAGES
from repalign.store import StoreWriter, WriteOptions
from repalign.store.formats.hdf5_files import Hdf5Images

if TYPE_CHECKING:
    from torch import nn

    from repalign.models.capture import View, ViewShape

OnExtract = Callable[[ExtractProgress], None]
HDF5_ENDINGS = (".h5", ".hdf5")


@overload
def extract(source: ExtractSettings, *, on_progress: OnExtract | None = None) -> ExtractResult: ...


@overload
def extract(
    source: "nn.Module",
    data: Iterable[Any],
    *,
    output: Path | str,
    ids: Sequence[str] | None = None,
    **options: Any,
) -> ExtractResult: ...


@checked
def extract(
    source: "ExtractSettings | nn.Module",
    data: Iterable[Any] | None = None,
    *,
    output: Path | str | None = None,
    ids: Sequence[str] | None = None,
    on_progress: OnExtract | None = None,
    **options: Any,
) -> ExtractResult:
    """Extract embeddings into a store; the same call resumes an earlier one.

    With the rank variables of torchrun or Slurm set, this process makes its shards of a named
    model; whichever finishes last completes the store.

    Args:
        source: ``ExtractSettings`` of a model that has a name, or any ``torch.nn.Module``.
        data: For a module: a loader, a data set, or an iterable of batches (tensors, tuples
            that begin with one, dictionaries of keywords), the same at every call.
        output: For a module: the store, a file ending in .h5 or a directory.
        ids: For a module: an id for each sample.
        on_progress: For settings: called with how far it is.
        options: For a module: ``layers``, ``pools``, ``batch_size``, ``device``,
            ``code_version``, ``overwrite``.

    Raises:
        InputError: Something cannot be used.
        ModelError: The model cannot be used, or a layer's rows are not the sample's own.
        StoreError: An unfinished store was begun with other settings.

    Example:
        >>> import torch, repalign
        >>> hidden, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)
        >>> network = torch.nn.Sequential(hidden, torch.nn.ReLU(), head)
        >>> batches = torch.randn(30, 4).split(10)
        >>> result = repalign.extract(network, batches, output="run-of-mine.h5")
        >>> result.n_rows, result.views
        (30, {'final': 3})
    """
    if not isinstance(source, ExtractSettings):
        return _extract_module(source, data, output, ids, options)
    if data is not None or output is not None or ids is not None or options:
        raise InputError("settings say everything; give them alone, or a module with its data")
    rank, n_ranks = read_rank()
    if source.overwrite and n_ranks > 1:
        raise InputError("--overwrite with several processes: remove the old store first")
    extraction = Extraction(source, n_ranks)
    with extraction.writer:
        numbers = [number for number in extraction.missing if number % n_ranks == rank]
        counts = extraction.make(numbers, on_progress)
    return extraction.finish(counts)


def _extract_module(
    source: Any,
    data: Iterable[Any] | None,
    output: Path | str | None,
    ids: Sequence[str] | None,
    options: Mapping[str, Any],
) -> ExtractResult:
    if not is_a(source, "torch.nn", "Module"):
        raise InputError(
            f"source: got {type(source).__name__}, expected ExtractSettings (of a model that has a "
            "name) or a torch.nn.Module"
        )
    if data is None or output is None:
        raise InputError("a module needs data and output: extract(module, batches, output='a.h5')")
    from repalign.extraction.modules import extract_module

    return extract_module(source, data, Path(output), ids, options)


def extract_in_turn(
    extractions: Sequence[ExtractSettings], on_progress: OnExtract | None = None
) -> list[ExtractResult | Exception]:
    """Extract one store after the other; no failure stops the next."""
    results: list[ExtractResult | Exception] = []
    for number, settings in enumerate(extractions):
        stores = number, len(extractions)

        def report(progress: ExtractProgress, stores: tuple[int, int] = stores) -> None:
            if on_progress is not None:
                on_progress(replace(progress, stores=stores))

        try:
            results.append(extract(settings, on_progress=report))
        except Exception as failure:  # noqa: BLE001 - whatever one model brings, others go on
            results.append(failure)
    return results


@dataclass(frozen=True)
class Counts:
    """What was made: samples, rows, tokens or images, samples that were cut, and seconds."""

    samples: int = 0
    rows: int = 0
    n_units: int = 0
    n_cut: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class Extraction:
    """A loaded model with its data and its open store, to make shards of.

    Args:
        settings: What is extracted.
        n_writers: Processes that write the store.

    Raises:
        RepalignError: The model, the data or the store cannot be used.
    """

    @exact_float32()  # the checks run the model too
    def __init__(self, settings: ExtractSettings, n_writers: int = 1) -> None:
        from repalign.models.capture import fit_views, make_views, probe_shapes
        from repalign.models.checkpoints import prepare_environment
        from repalign.models.load import load_encoder, load_inputs

        self.settings = settings
        tokens = parse_tokens(settings.tokens)
        device = choose_device(settings.device)
        types = casts(settings, device.type)
        prepare_environment(offline=settings.offline)
        encoder = load_encoder(
            settings.model, trust_code=settings.trust_code, weights=settings.weights
        )
        views = make_views(encoder, settings.layers, settings.pools)
        is_pooled = views[0].pool != "token"
        if settings.tokens != "all" and is_pooled:
            raise InputError(
                f"--tokens {settings.tokens} chooses rows of unpooled tokens, but pooling is "
                f"{views[0].pool!r}; add --pool token"
            )
        source = open_source(settings.data, encoder.family.kind, settings.read)
        self._ordinals = select_samples(
            source, limit=settings.limit, sample=settings.sample, seed=settings.seed
        )
        encoder.module.to(device)
        self.inputs = load_inputs(
            encoder,
            preprocess=settings.preprocess,
            backend=settings.image_backend,
            max_length=settings.max_length,
            tokenizer=settings.tokenizer,
        )
        if getattr(self.inputs, "size", ()) is None:  # all images take the shape of the first
            self.inputs.prepare(source.read(int(self._ordinals[0])).value)
        size = getattr(self.inputs, "size", None)
        shapes = probe_shapes(encoder, [view.tap for view in views], size)
        views = fit_views(encoder, views, shapes)
        self.dims = {view.key: shapes[view.tap.label].dim for view in views}
        self.runner = Runner(encoder, views, device, self.inputs.finish, *types)
        self._feed = Feed(
            source=source,
            ordinals=self._ordinals,
            inputs=self.inputs,
            tokens=None if is_pooled else tokens,
            seed=settings.seed,
            budget=settings.batch_size or self.inputs.default_budget(device.type),
            patches=_patches(views, shapes) if self.inputs.same_size else 0,
            workers=settings.workers,
        )
        rows_per_sample = self._check_batches()
        row_bytes = 4 * sum(self.dims.values())
        self._per_shard = settings.shard_samples or min(
            self.inputs.shard_limit, samples_per_shard(rows_per_sample, row_bytes)
        )
        self.n_shards = -(-len(self._ordinals) // self._per_shard)
        self.writer = StoreWriter(
            settings.output,
            spec=self._spec(),
            views=self.dims,
            options=WriteOptions(
                dtype=settings.store_dtype,
                licence=encoder.origin.licence,
                environment=_environment(device),
                n_shards=self.n_shards,
                n_writers=n_writers,
                expected_rows=max(1, int(len(self._ordinals) * rows_per_sample)),
            ),
            overwrite=settings.overwrite,
            resume=not settings.overwrite,
        )

    def _check_batches(self) -> float:
        """Check on the first samples that rows do not depend on the batch.

        Returns the rows of a sample. Raises ModelError naming a layer that gives other rows.
        """
        feed = self._feed
        count = self.inputs.count_first(is_pooled=feed.tokens is None)
        first = list(feed.read(0, min(count, len(self._ordinals))))
        positions = [feed.positions(sample, item) for sample, item in first]
        items = self.inputs.check_items([item for _, item in first])
        check_batch_invariance(
            self.runner, feed.batch_of(items), [feed.batch_of([item]) for item in items]
        )
        return float(np.mean([1 if chosen is None else len(chosen) for chosen in positions]))

    @property
    def missing(self) -> list[int]:
        """Numbers of the shards that were not there when it was opened."""
        if self.writer.is_complete:
            return []
        return sorted(set(range(self.n_shards)) - set(self.writer.committed))

    def shard(self, number: int) -> Shard:
        """Return a shard, without its rows."""
        start = number * self._per_shard
        return Shard(number, start, min(len(self._ordinals), start + self._per_shard), self.dims)

    def make(self, numbers: Sequence[int], on_progress: OnExtract | None = None) -> Counts:
        """Compute and commit shards; a thread writes those that are full."""
        shards = [self.shard(number) for number in numbers]
        total = sum(shard.stop - shard.start for shard in shards)
        counts, started = Counts(), time.perf_counter()
        is_cuda = self.runner.device.type == "cuda"
        writes: deque[Future[None]] = deque()
        with (
            exact_float32(tf32=self.settings.dtype == "tf32"),
            ThreadPoolExecutor(1, "repalign-writer") as thread,
            closing(self._feed.batches(shards)) as feed,
            closing(prefetch(pin_batches(feed) if is_cuda else feed)) as batches,
        ):
            results = (
                ((shard, part), rows)
                for shard, batch in batches
                for part, rows in self.runner.run_fitting(batch)
            )
            for (shard, batch), rows in rows_on_host(results):
                n_rows = shard.place(batch, rows)
                counts += Counts(len(batch.members), n_rows, batch.n_units, batch.n_cut)
                counts = replace(counts, seconds=time.perf_counter() - started)
                if on_progress is not None:
                    speed = Speed(counts.n_units, self.inputs.unit, counts.seconds)
                    on_progress(ExtractProgress(counts.samples, total, counts.rows, speed))
                if not shard.missing:
                    if len(writes) > 1:
                        writes.popleft().result()
                    write = partial(shard.write, with_ids=self.settings.with_ids)
                    writes.append(thread.submit(write, self.writer, self._ordinals))
            for future in writes:
                future.result()
            self.writer.flush()
        return replace(counts, seconds=time.perf_counter() - started)

    def finish(self, counts: Counts) -> ExtractResult:
        """Complete the store if all shards are there; ``counts`` are those of this run."""
        info = self.writer.finish()
        return ExtractResult(
            path=self.writer.directory if info is None else info.path,
            is_complete=info is not None,
            n_rows=None if info is None else info.n_rows,
            fingerprint=None if info is None else info.fingerprint,
            views=self.dims,
            rows_new=counts.rows,
            samples=len(self._ordinals),
            speed=Speed(counts.n_units, self.inputs.unit, counts.seconds),
            device=str(self.runner.device),
            n_cut=counts.n_cut,
            warnings=tuple(self._warnings(counts)),
        )

    def _warnings(self, counts: Counts) -> Iterator[str]:
        settings = self.settings
        if counts.n_cut:
            yield (
                f"{counts.n_cut:,} of {counts.samples:,} samples are longer than "
                f"{self.inputs.longest} and were cut on the right: their rows do not depend on "
                "what follows"
            )
        if settings.dtype != "fp32":
            yield (
                f"{settings.dtype} rows depend on the batches they were computed in (in bf16 by "
                "about 3e-2 of a unit); compare only stores made with the same settings"
            )
        if self.runner.device.type != "cpu" and settings.batch_size is None:
            yield (
                "the size of batches depends on the memory of the device; give --batch-size for "
                "rows that repeat to the bit"
            )
        if len(self._ordinals) < max(self.dims.values()):
            yield (
                f"{len(self._ordinals)} samples are fewer than the columns of a view; a comparison "
                "of such stores overfits"
            )

    def _spec(self) -> dict[str, Any]:
        """Return how rows are made, as plain values without paths or names of people."""
        settings, encoder = self.settings, self.runner.encoder
        source = self._feed.source
        views = {
            view.key: {
                "layer": view.tap.label,
                "module": view.tap.module,
                "side": view.tap.side,
                "pool": view.pool,
                "prefix_tokens": view.prefix,
            }
            for view in self.runner.views
        }
        return {
            "model": encoder.origin.as_dict(),
            "view": {"family": encoder.family.name, "tokens": settings.tokens, "views": views},
            "tokenizer" if encoder.family.kind == "text" else "preprocess": self.inputs.as_dict(),
            # how the library describes it, which another library describes in other words
            "processor": getattr(self.inputs, "settings", None),
            "dataset": {
                **source.description,
                "n": len(source),
                "limit": settings.limit,
                "sample": settings.sample,
                "with_ids": settings.with_ids,
            },
            "numerics": {
                "weights": settings.weights,
                "autocast": settings.dtype,
                "device": self.runner.device.type,
                "tf32": settings.dtype == "tf32",
            },
            "plan": {
                "samples_per_shard": self._per_shard,
                "batch_size": settings.batch_size or "auto",
            },
            "seed": settings.seed,
        }


def open_source(name: str, kind: Kind, options: ReadOptions) -> Source:
    """Open data for a model of a kind; the store reads HDF5 files of images.

    Raises InputError when there is nothing of that kind.
    """
    path = Path(name).expanduser()
    if kind != "image" or path.suffix.lower() not in HDF5_ENDINGS or not path.is_file():
        return open_data(name, kind, options)
    images = Hdf5Images(path, options.column)
    description: dict[str, object] = {
        "format": "hdf5",
        "name": path.name,
        "sha256": file_sha256(path),
        "column": images.name,
    }
    return ArrayImages(images, description)


def _patches(views: "Sequence[View]", shapes: "Mapping[str, ViewShape]") -> int:
    """Return the positions per image that may become rows."""
    counts = {}
    for view in views:
        positions = shapes[view.tap.label].positions or 1
        counts[view.key] = positions - (view.prefix if positions > 1 else 0)
    if views[0].pool == "token" and len(set(counts.values())) > 1:
        listed = ", ".join(f"{key} {count}" for key, count in counts.items())
        raise InputError(
            f"these layers have different numbers of positions ({listed}), so their rows are not "
            "the same; extract them one by one, or pooled"
        )
    return next(iter(counts.values()))


def _environment(device: Any) -> dict[str, Any]:
    """Return versions and the kind of device, which may explain small differences."""
    import torch

    environment: dict[str, Any] = {name: version(name) for name in RECORDED_PACKAGES}
    environment["threads"] = torch.get_num_threads()
    if device.type == "cuda":
        environment["gpu"] = torch.cuda.get_device_name(device)
        environment["cuda"] = str(torch.version.cuda)
    return environment
