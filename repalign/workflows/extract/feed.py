"""Feeding a model: samples read, tokenised or decoded, batched, ahead of the computation."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from repalign.data.samples import Sample, Selection
from repalign.exceptions import InputError
from repalign.workflows.extract.plan import Keep, Positions, plan_batches

if TYPE_CHECKING:
    from torch import Tensor

    from repalign.models.inputs.images import ImagePreprocess
    from repalign.models.inputs.sounds import Prepared, SoundEncoder
    from repalign.models.inputs.text import TextEncoder
    from repalign.models.loaders.own import OwnPreparation

Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class HostBatch:
    """A batch on the host. ``members`` are its samples' places in the shard.

    ``lengths`` counts real tokens per sample (None for images); ``n_units`` are what the feed
    counts, all tokens or the samples; ``positions`` are the kept tokens of each, None when rows
    are pooled. ``n_cut`` samples were longer than the model takes.
    """

    inputs: dict[str, "Tensor"]
    members: NDArray[np.int64]
    lengths: "Tensor | None"
    positions: list[Positions] | None
    n_units: int
    n_cut: int = 0


@dataclass(frozen=True, eq=False)
class ShardStart:
    """The beginning of a shard: its number and the rows that each of its samples gives."""

    number: int
    rows_per_sample: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ShardEnd:
    """The end of a shard: who its samples are, and the kept positions of each."""

    number: int
    ids: list[str]
    hashes: list[bytes]
    positions: list[Positions] | None


Event = ShardStart | HostBatch | ShardEnd


class Feed(Protocol):
    """A source of shards, batch by batch; ``unit`` is what its speed is told in."""

    unit: ClassVar[str]

    def shard(self, number: int, start: int, stop: int) -> Iterator[Event]:
        """Yield the start of a shard, its batches, and its end."""
        ...


@dataclass(frozen=True)
class TextFeed:
    """Tokenises a shard at once and batches its samples by length."""

    unit: ClassVar[str] = "tokens"
    selection: Selection
    encoder: "TextEncoder"
    keep: Keep
    budget: int
    masked: bool

    def shard(self, number: int, start: int, stop: int) -> Iterator[Event]:
        """Yield the start of a shard, its batches, and its end."""
        from repalign.models.inputs.text import pad_batch

        samples = [self.selection.read(index) for index in range(start, stop)]
        ids, is_cut = self.encoder.encode_telling([str(sample.value) for sample in samples])
        for sample, tokens in zip(samples, ids, strict=True):
            self.encoder.check(tokens, sample.id)
        lengths = [len(tokens) for tokens in ids]

        def batch(members: NDArray[np.int64], positions: list[Positions] | None) -> HostBatch:
            chosen = [ids[member] for member in members]
            inputs, real = pad_batch(chosen, self.encoder.pad_id, masked=self.masked)
            units, n_cut = sum(map(len, chosen)), int(is_cut[members].sum())
            return HostBatch(inputs, members, real, positions, units, n_cut)

        plan = plan_batches(lengths, self.budget)
        yield from _by_length(number, samples, lengths, self.keep, plan, batch)

    def rows_of(self, index: int) -> int:
        """Rows that one sample gives."""
        sample = self.selection.read(index)
        (tokens,) = self.encoder.encode([str(sample.value)])
        return self.keep.rows(len(tokens), sample.sha256)


@dataclass(frozen=True)
class SoundFeed:
    """Prepares a shard on several threads and batches its sounds by length."""

    unit: ClassVar[str] = "sounds"
    selection: Selection
    encoder: "SoundEncoder"
    keep: Keep
    budget: int
    pool: ThreadPoolExecutor

    def shard(self, number: int, start: int, stop: int) -> Iterator[Event]:
        """Yield the start of a shard, its batches, and its end."""
        from repalign.models.inputs.sounds import pad_sounds

        futures = [self.pool.submit(self._prepare, index) for index in range(start, stop)]
        samples, sounds = zip(*[future.result() for future in futures], strict=True)
        counts = [self._count(s, p) for s, p in zip(samples, sounds, strict=True)]
        lengths = [one.values.shape[-1] for one in sounds]

        def batch(members: NDArray[np.int64], positions: list[Positions] | None) -> HostBatch:
            chosen = [sounds[member] for member in members]
            inputs, real = pad_sounds(chosen, self.encoder.sound)
            n_cut = sum(one.is_cut for one in chosen)
            return HostBatch(inputs, members, real, positions, len(chosen), n_cut)

        # a budget of states, in steps of the prepared sound
        steps = self.budget * max(1, max(lengths) // max(counts))
        plan = plan_batches(lengths, steps, is_apart=self.encoder.sound.is_apart)
        yield from _by_length(number, samples, counts, self.keep, plan, batch)

    def rows_of(self, index: int) -> int:
        """Rows that one sample gives."""
        sample, prepared = self._prepare(index)
        return self.keep.rows(self._count(sample, prepared), sample.sha256)

    def _prepare(self, index: int) -> "tuple[Sample, Prepared]":
        sample = self.selection.read(index)
        sound: Any = sample.value
        with _naming(sample):
            prepared = self.encoder(sound.values, sound.rate)
        return _without_value(sample), prepared

    def _count(self, sample: Sample, prepared: "Prepared") -> int:
        count = self.encoder.sound.frames(prepared.length)
        if count == 0:
            raise InputError(
                f"the sound of sample {sample.id} is too short for this model, which gives no "
                "state for it; remove it from the data"
            )
        return count


@dataclass(frozen=True)
class ImageFeed:
    """Decodes images on several threads, a few batches ahead, in data order."""

    unit: ClassVar[str] = "images"
    selection: Selection
    preprocess: "ImagePreprocess | OwnPreparation"
    keep: Keep
    patches: int
    batch_size: int
    pool: ThreadPoolExecutor

    def shard(self, number: int, start: int, stop: int) -> Iterator[Event]:
        """Yield the start of a shard, its batches, and its end."""
        rows = self.keep.rows(self.patches, bytes(32))
        yield ShardStart(number, np.full(stop - start, rows, dtype=np.int64))
        samples: list[Sample] = []
        positions: list[Positions | None] = []
        for first, futures in self._ahead(start, stop):
            decoded = [future.result() for future in futures]
            samples += [sample for sample, _ in decoded]
            kept = [self.keep(self.patches, sample.sha256) for sample, _ in decoded]
            positions += kept
            yield HostBatch(
                inputs={"pixel_values": _stack([pixels for _, pixels in decoded])},
                members=np.arange(first - start, first - start + len(decoded)),
                lengths=None,
                positions=_all_or_none(kept),
                n_units=len(decoded),
            )
        yield _end(number, samples, _all_or_none(positions))

    def _ahead(self, start: int, stop: int) -> Iterator[tuple[int, list["Future[Decoded]"]]]:
        waiting: deque[tuple[int, list[Future[Decoded]]]] = deque()
        for first in range(start, stop, self.batch_size):
            chunk = range(first, min(stop, first + self.batch_size))
            waiting.append((first, [self.pool.submit(self._decode, index) for index in chunk]))
            if len(waiting) > 2:
                yield waiting.popleft()
        yield from waiting

    def _decode(self, index: int) -> "Decoded":
        sample = self.selection.read(index)
        # bytes, a quarter of the floats, which the model's device makes of them
        prepare: Callable[[Any], NDArray[Any]]
        prepare = getattr(self.preprocess, "bytes_of", self.preprocess)
        with _naming(sample):
            pixels = prepare(sample.value)
        # batches wait in memory, and an original can be a hundred times its prepared image
        return _without_value(sample), pixels


# an image as bytes (height, width, channels), or as prepared floats (channels, height, width)
Decoded = tuple[Sample, NDArray[Any]]


def prefetch(items: Iterator[Item], depth: int = 4) -> Iterator[Item]:
    """Run an iterator on a thread of its own, at most ``depth`` items ahead.

    An exception in the iterator is raised here; leaving early stops the thread.
    """
    buffer: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(maxsize=depth)
    stopped = threading.Event()

    def offer(entry: tuple[Item | None, BaseException | None]) -> None:
        while not stopped.is_set():
            try:
                buffer.put(entry, timeout=0.1)
            except queue.Full:
                continue
            return

    def work() -> None:
        failure: BaseException | None = None
        try:
            for item in items:
                offer((item, None))
                if stopped.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - it is raised again by the consumer
            failure = error
        offer((None, failure or StopIteration()))

    thread = threading.Thread(target=work, name="repalign-feed", daemon=True)
    thread.start()
    try:
        while True:
            item, failure = buffer.get()
            if isinstance(failure, StopIteration):
                return
            if failure is not None:
                raise failure
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join()


def _by_length(
    number: int,
    samples: Sequence[Sample],
    counts: Sequence[int],
    keep: Keep,
    plan: Sequence[NDArray[np.int64]],
    batch: Callable[[NDArray[np.int64], list[Positions] | None], HostBatch],
) -> Iterator[Event]:
    """Yield a shard of samples of other lengths, of ``counts`` states, in planned batches."""
    kept = [keep(count, sample.sha256) for count, sample in zip(counts, samples, strict=True)]
    positions = _all_or_none(kept)
    yield ShardStart(number, _row_counts(len(samples), positions))
    for members in plan:
        yield batch(members, None if positions is None else [positions[m] for m in members])
    yield _end(number, samples, positions)


def _all_or_none(kept: Sequence[Positions | None]) -> list[Positions] | None:
    return [k for k in kept if k is not None] if kept and kept[0] is not None else None


def _row_counts(count: int, positions: Sequence[Positions] | None) -> NDArray[np.int64]:
    if positions is None:
        return np.ones(count, dtype=np.int64)
    return np.array([len(kept) for kept in positions], dtype=np.int64)


@contextmanager
def _naming(sample: Sample) -> Iterator[None]:
    """Name the sample in front of what is wrong with it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{sample.id}: {error}") from error


def _without_value(sample: Sample) -> Sample:
    return Sample(sample.id, sample.sha256, "")


def _end(number: int, samples: Sequence[Sample], positions: list[Positions] | None) -> ShardEnd:
    ids = [sample.id for sample in samples]
    return ShardEnd(number, ids, [sample.sha256 for sample in samples], positions)


def _stack(images: Sequence[NDArray[Any]]) -> "Tensor":
    import torch

    return torch.from_numpy(np.stack(images))
