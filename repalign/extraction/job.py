"""Everything an extraction needs, put together once: encoder, data, views, batches and spec."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from repalign.core.device import exact_float32
from repalign.data.samples import Sample, Selection, select_samples
from repalign.exceptions import InputError
from repalign.extraction.batches import Feed, PositionRule
from repalign.extraction.checks import check_batch_invariance
from repalign.extraction.device import Runner, autocast_dtype, choose_device
from repalign.extraction.plan import default_workers, samples_per_shard, shard_bounds
from repalign.extraction.settings import ExtractSettings
from repalign.extraction.shards import Shard
from repalign.extraction.source import open_source
from repalign.extraction.spec import build_environment, build_spec

if TYPE_CHECKING:
    from repalign.models.capture import View, ViewShape
    from repalign.models.encoder import Encoder
    from repalign.models.inputs.items import Inputs, Item

# First samples, of which batches are checked and, of tokens, the rows of a sample estimated.
_FIRST, _FIRST_TEXTS = 16, 256
_SHARD_SOUNDS = 64
# On the CPU small batches are fastest, whose activations stay in its caches (measured: 512 or 1024
# tokens are up to twice as fast as 4096, and with two threads 1024 by 3 %). Fixed numbers, so that
# every run makes the same batches.
_CPU_TOKENS = 1024
_CPU_PIXELS = 8 * 224 * 224
_CPU_MOST_IMAGES = 1024
# Tokens, images or states per batch elsewhere, halved where memory is short.
_DEVICE_BATCH = {"text": 131072, "image": 512, "audio": 32768}


@dataclass(frozen=True, eq=False)
class ExtractJob:
    """A prepared extraction; ``dims`` are the columns of every view."""

    settings: ExtractSettings
    runner: Runner
    selection: Selection
    feed: Feed
    dims: dict[str, int]
    per_shard: int
    rows_per_sample: float
    spec: dict[str, Any]
    environment: dict[str, Any]

    @property
    def n_shards(self) -> int:
        """Number of shards of the whole extraction."""
        return -(-len(self.selection) // self.per_shard)

    def shard(self, number: int) -> Shard:
        """Return a shard, without its rows."""
        return Shard(number, shard_bounds(number, len(self.selection), self.per_shard), self.dims)

    def close(self) -> None:
        """Stop the threads that decode."""
        self.feed.pool.shutdown(wait=False, cancel_futures=True)


@exact_float32()  # the checks run the model too
def prepare_job(settings: ExtractSettings) -> ExtractJob:
    """Load the model, open the data and decide how rows are made.

    Raises a RepalignError for anything that cannot be used.
    """
    from repalign.models.capture import fit_views, make_views, probe_shapes
    from repalign.models.hub import prepare_environment
    from repalign.models.load import load_encoder
    from repalign.models.pooling import parse_tokens

    tokens = parse_tokens(settings.tokens)
    device = choose_device(settings.device)
    prepare_environment(offline=settings.offline)
    encoder = load_encoder(settings.model, trust_code=settings.trust_code)
    views = make_views(encoder, settings.layers, settings.pools)
    if settings.tokens != "all" and views[0].pool != "token":
        raise InputError(
            f"--tokens {settings.tokens} chooses rows of unpooled tokens, but pooling is "
            f"{views[0].pool!r}; add --pool token"
        )
    source = open_source(settings.data, encoder.family.kind, settings.read)
    selection = select_samples(
        source, limit=settings.limit, sample=settings.sample, seed=settings.seed
    )
    encoder.module.to(device)
    inputs = load_inputs(settings, encoder, selection)
    size = getattr(inputs, "size", None)
    shapes = probe_shapes(encoder, [view.tap for view in views], size)
    views = fit_views(encoder, views, shapes)
    runner = Runner(encoder, views, device, inputs.finish, autocast_dtype(settings.dtype))
    feed = Feed(
        selection=selection,
        inputs=inputs,
        rule=PositionRule(tokens if views[0].pool == "token" else None, settings.seed),
        budget=settings.batch_size or _default_budget(encoder, device.type, size),
        patches=_patches(views, shapes) if inputs.same_size else 0,
        pool=ThreadPoolExecutor(settings.workers or default_workers(), "repalign-decode"),
    )
    try:
        first = _first_samples(feed)
        _check_batches(runner, feed, first)
    except BaseException:
        feed.pool.shutdown(wait=False, cancel_futures=True)
        raise
    rows = [feed.rule.n_rows(feed.states(s, item), s.sha256) for s, item in first]
    rows_per_sample = float(np.mean(rows))
    dims = {view.key: shapes[view.tap.label].dim for view in views}
    per_shard = settings.shard_samples or samples_per_shard(rows_per_sample, 4 * sum(dims.values()))
    if encoder.sound is not None and settings.shard_samples is None:
        per_shard = min(per_shard, _SHARD_SOUNDS)  # they are held in memory
    return ExtractJob(
        settings=settings,
        runner=runner,
        selection=selection,
        feed=feed,
        dims=dims,
        per_shard=per_shard,
        rows_per_sample=rows_per_sample,
        spec=build_spec(settings, runner, selection, inputs, per_shard),
        environment=build_environment(device),
    )


def load_inputs(settings: ExtractSettings, encoder: "Encoder", selection: Selection) -> "Inputs":
    """Return what prepares and collates the samples of the encoder's modality.

    Raises ModelError where its files are missing or do not fit.
    """
    from repalign.models.custom import CustomImages
    from repalign.models.inputs.audio import load_audio_inputs
    from repalign.models.inputs.text import load_text_inputs
    from repalign.models.load import choose_image_inputs

    if encoder.family.kind == "text":
        return load_text_inputs(encoder, max_length=settings.max_length, source=settings.tokenizer)
    if encoder.sound is not None:
        if settings.preprocess is not None:
            raise InputError(
                "--preprocess is of images; sounds are prepared by the model's feature extractor: "
                "leave it out"
            )
        return load_audio_inputs(encoder)
    inputs = choose_image_inputs(encoder, settings.preprocess, settings.image_backend)
    if isinstance(inputs, CustomImages):
        inputs.prepare(selection.read(0).value)  # all images take the shape of the first
    return inputs


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


def _default_budget(encoder: "Encoder", device: str, size: Sequence[int] | None) -> int:
    """Return the tokens, states or images of a batch."""
    if device != "cpu":
        return _DEVICE_BATCH[encoder.family.kind]
    if size is None:
        return _CPU_TOKENS
    return max(1, min(_CPU_MOST_IMAGES, _CPU_PIXELS // (size[0] * size[1])))


def _first_samples(feed: Feed) -> "list[tuple[Sample, Item]]":
    """Read the first samples, as many as their modality needs."""
    count = _FIRST
    if feed.inputs.same_size:
        count = 3
    elif feed.inputs.in_bulk and feed.rule.tokens is not None:
        count = _FIRST_TEXTS
    return list(feed.read(0, min(count, len(feed.selection))))


def _check_batches(runner: Runner, feed: Feed, first: "Sequence[tuple[Sample, Item]]") -> None:
    """Check on real samples that rows do not depend on the batch.

    Raises ModelError naming the layer.
    """
    for sample, item in first:
        feed.states(sample, item)
    items = feed.inputs.check_items([item for _, item in first])
    counts = [feed.states(first[0][0], item) for item in items]
    unpooled = feed.rule.tokens is not None
    positions = [np.arange(count) if unpooled else None for count in counts]
    together = feed.collate(np.arange(len(items)), items, positions)
    alone = [
        feed.collate(np.arange(1), [item], [part])
        for item, part in zip(items, positions, strict=True)
    ]
    check_batch_invariance(runner, together, alone)
