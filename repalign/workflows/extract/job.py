"""Everything an extraction needs, put together once: model, data, views, plan and spec."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repalign.core.compute import exact_float32
from repalign.data.samples import Selection, select_samples
from repalign.exceptions import InputError
from repalign.models.loaders.boundary import is_out_of_memory
from repalign.workflows.extract.company import (
    check_company,
    image_samples,
    sound_samples,
    text_samples,
    verify_device,
)
from repalign.workflows.extract.device import autocast_dtype, choose_device
from repalign.workflows.extract.feed import (
    Feed,
    HostBatch,
    ImageFeed,
    SoundFeed,
    TextFeed,
)
from repalign.workflows.extract.plan import Keep, default_workers, samples_per_shard
from repalign.workflows.extract.runner import (
    SOUND_SECONDS,
    BatchRunner,
    fit_budget,
    probe_batch,
    release_memory,
)
from repalign.workflows.extract.settings import ExtractSettings
from repalign.workflows.extract.source import open_source
from repalign.workflows.extract.spec import build_environment, build_spec

if TYPE_CHECKING:
    from repalign.models.inputs.images import ImagePreprocess
    from repalign.models.loaders.loaded import LoadedModel
    from repalign.models.loaders.own import OwnPreparation
    from repalign.models.views.views import View, ViewShape

_ESTIMATED_FROM = 256
_HEARD, _SHARD_SOUNDS = 16, 64
# On the CPU small batches are fastest, whose activations stay in its caches (measured: 512 or 1024
# tokens are up to twice as fast as 4096, and with two threads 1024 by 3 %). Fixed numbers, so that
# every run makes the same batches.
_CPU_TOKENS = 1024
_CPU_PIXELS = 8 * 224 * 224
_CPU_MOST_IMAGES = 1024
# Tokens per batch, images per batch: the start of a search elsewhere.
_DEVICE_BATCH = {"text": 131072, "image": 512, "audio": 32768}


@dataclass(frozen=True, eq=False)
class ExtractJob:
    """A prepared extraction; ``dims`` are the columns of every view."""

    settings: ExtractSettings
    runner: BatchRunner
    selection: Selection
    feed: Feed
    dims: dict[str, int]
    per_shard: int
    rows_per_sample: float
    spec: dict[str, Any]
    environment: dict[str, Any]
    pool: ThreadPoolExecutor
    longest: str

    @property
    def n_shards(self) -> int:
        """Number of shards of the whole extraction."""
        return -(-len(self.selection) // self.per_shard)

    def verify_device(self) -> float | None:
        """Check the device against the CPU on as many samples as was asked for, if any.

        Raises ModelError when they deviate.
        """
        if self.settings.verify_device is None:
            return None
        events = self.feed.shard(0, 0, min(self.settings.verify_device, len(self.selection)))
        batches = (event for event in events if isinstance(event, HostBatch))
        return verify_device(self.runner, batches, self.settings.dtype)


@exact_float32()  # the checks and the trials run the model too
def prepare_job(settings: ExtractSettings) -> ExtractJob:
    """Load the model, open the data and decide everything that the result depends on.

    Raises a RepalignError for anything that cannot be used.
    """
    from repalign.models.loaders.load import load_model
    from repalign.models.naming.hub import prepare_environment
    from repalign.models.views.pooling import parse_tokens
    from repalign.models.views.views import make_views

    tokens = parse_tokens(settings.tokens)
    device = choose_device(settings.device)
    prepare_environment(offline=settings.offline)
    model = load_model(settings.model, trust_code=settings.trust_code)
    views = make_views(model, settings.layers, settings.pools)
    _check_tokens(settings, views)
    source = open_source(settings.data, model.family.kind, settings.read)
    selection = select_samples(
        source, limit=settings.limit, sample=settings.sample, seed=settings.seed
    )
    model.module.to(device)
    runner = BatchRunner(model, views, device, autocast_dtype(settings.dtype))
    pool = ThreadPoolExecutor(settings.workers or default_workers(), "repalign-decode")
    keep = Keep(tokens if views[0].pool == "token" else None, settings.seed)
    if model.family.kind == "text":
        inputs = _text_inputs(settings, runner, selection, keep)
    elif model.sound is not None:
        inputs = _sound_inputs(settings, runner, selection, keep, pool)
    else:
        inputs = _image_inputs(settings, runner, selection, keep, pool)
    runner = replace(runner, views=inputs.views, normalising=inputs.normalising)
    dims = {view.key: inputs.shapes[view.tap.label].dim for view in views}
    per_shard = settings.shard_samples or samples_per_shard(
        inputs.rows_per_sample, 4 * sum(dims.values())
    )
    if model.sound is not None and settings.shard_samples is None:
        per_shard = min(per_shard, _SHARD_SOUNDS)  # they are held in memory
    return ExtractJob(
        settings=settings,
        runner=runner,
        selection=selection,
        feed=inputs.feed,
        dims=dims,
        per_shard=per_shard,
        rows_per_sample=inputs.rows_per_sample,
        spec=build_spec(settings, runner, selection, inputs.spec, per_shard),
        environment=build_environment(device),
        pool=pool,
        longest=inputs.longest,
    )


@dataclass(frozen=True, eq=False)
class Inputs:
    """How a model's inputs are made: the feed, the views and sizes that come of it, and its spec.

    ``rows_per_sample`` is estimated from the first samples where they differ; ``longest`` says
    what a sample is cut to.
    """

    feed: Feed
    views: tuple["View", ...]
    shapes: Mapping[str, "ViewShape"]
    rows_per_sample: float
    spec: dict[str, object]
    longest: str = ""
    normalising: "tuple[NDArray[np.float32], NDArray[np.float32]] | None" = None


def _text_inputs(
    settings: ExtractSettings, runner: BatchRunner, selection: Selection, keep: Keep
) -> Inputs:
    from repalign.models.inputs.text import load_text_encoder
    from repalign.models.views.views import probe_shapes

    model = runner.model
    encoder = load_text_encoder(model, max_length=settings.max_length, source=settings.tokenizer)
    shapes = probe_shapes(model, [view.tap for view in runner.views])
    unpooled = runner.views[0].pool == "token"
    check_company(runner, *text_samples(encoder, masked=model.needs_mask, unpooled=unpooled))
    budget = _budget(settings, runner, encoder.max_length, ())
    feed = TextFeed(selection, encoder, keep, budget, masked=model.needs_mask)
    few = range(min(_ESTIMATED_FROM, len(selection))) if unpooled else ()
    rows = float(np.mean([feed.rows_of(k) for k in few])) if few else 1.0
    longest = f"{encoder.max_length} tokens"
    return Inputs(feed, tuple(runner.views), shapes, rows, encoder.as_dict(), longest)


def _sound_inputs(
    settings: ExtractSettings,
    runner: BatchRunner,
    selection: Selection,
    keep: Keep,
    pool: ThreadPoolExecutor,
) -> Inputs:
    from repalign.models.inputs.sounds import load_sound_encoder
    from repalign.models.views.views import fit_views, probe_shapes

    sound = runner.model.sound
    assert sound is not None
    if settings.preprocess is not None:
        raise InputError(
            "--preprocess is of images; sounds are prepared by the model's feature extractor: "
            "leave it out"
        )
    encoder = load_sound_encoder(runner.model)
    shapes = probe_shapes(runner.model, [view.tap for view in runner.views])
    views = fit_views(runner.model, runner.views, shapes)
    check_company(runner, *sound_samples(sound, unpooled=views[0].pool == "token"))
    length = sound.shape[-1] if len(sound.shape) > 1 else SOUND_SECONDS * encoder.rate
    budget = _budget(settings, runner, sound.frames(length), ())
    feed = SoundFeed(selection, encoder, keep, budget, pool)
    rows = float(np.mean([feed.rows_of(k) for k in range(min(_HEARD, len(selection)))]))
    cut = f"{getattr(encoder.extractor, 'chunk_length', 0)} s"
    return Inputs(feed, views, shapes, rows, encoder.as_dict(), cut)


def _image_inputs(
    settings: ExtractSettings,
    runner: BatchRunner,
    selection: Selection,
    keep: Keep,
    pool: ThreadPoolExecutor,
) -> Inputs:
    from repalign.models.loaders.own import OwnPreparation
    from repalign.models.views.views import fit_views, probe_shapes

    model = runner.model
    preprocess, (channels, *size) = _preparation(settings, model, selection)
    shapes = probe_shapes(model, [view.tap for view in runner.views], size)
    views = fit_views(model, runner.views, shapes)
    patches = _patches(views, shapes)
    unpooled = patches if views[0].pool == "token" else None
    check_company(replace(runner, views=views), *image_samples(channels, size, unpooled))
    budget = _budget(settings, runner, 1, size)
    feed = ImageFeed(selection, preprocess, keep, patches, budget, pool)
    rows = float(keep.rows(patches, bytes(32)))
    own = None if isinstance(preprocess, OwnPreparation) else preprocess.normalising()
    return Inputs(feed, views, shapes, rows, preprocess.as_dict(), normalising=own)


def _preparation(
    settings: ExtractSettings, model: "LoadedModel", selection: Selection
) -> "tuple[ImagePreprocess | OwnPreparation, tuple[int, ...]]":
    """How images are prepared, and the shape that they come out in."""
    from repalign.models.inputs.choice import choose_preprocess
    from repalign.models.loaders.own import OwnPreparation

    if model.prepare is not None and settings.preprocess is None:
        first: Any = selection.read(0).value
        own = OwnPreparation(model.prepare, model.origin.model, first)
        return own, own.shape or ()
    chosen = choose_preprocess(model, settings.preprocess, settings.image_backend)
    return chosen, (len(chosen.mean), *(chosen.output_size or ()))


def _check_tokens(settings: ExtractSettings, views: Sequence["View"]) -> None:
    if settings.tokens != "all" and views[0].pool != "token":
        raise InputError(
            f"--tokens {settings.tokens} chooses rows of unpooled tokens, but pooling is "
            f"{views[0].pool!r}; add --pool token"
        )


def _patches(views: Sequence["View"], shapes: Mapping[str, "ViewShape"]) -> int:
    """Positions per image that may become rows; the same for all views of a token store."""
    counts = {}
    for view in views:
        positions = shapes[view.tap.label].positions or 1
        counts[view.key] = positions - (view.prefix if positions > 1 else 0)
    if views[0].pool == "token" and len(set(counts.values())) > 1:
        found = ", ".join(f"{key} {count}" for key, count in counts.items())
        raise InputError(
            f"these layers have different numbers of positions ({found}), so their rows are not "
            "the same; extract them one by one, or pooled"
        )
    return next(iter(counts.values()))


def _budget(
    settings: ExtractSettings, runner: BatchRunner, longest: int, image: Sequence[int]
) -> int:
    """Size of a batch: as told, fixed on the CPU, else the largest that fits by halving."""
    kind = runner.model.family.kind
    if settings.batch_size is not None:
        return settings.batch_size
    if runner.device.type == "cpu":
        return _images_of(image) if kind == "image" else _CPU_TOKENS

    def fits(size: int) -> bool:
        try:
            runner.run(probe_batch(runner.model, size, longest, image))
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            is_fitting = False
        else:
            is_fitting = True
        release_memory(runner.device)
        return is_fitting

    return fit_budget(fits, _DEVICE_BATCH[kind], longest)


def _images_of(size: Sequence[int]) -> int:
    return max(1, min(_CPU_MOST_IMAGES, _CPU_PIXELS // (size[0] * size[1])))
