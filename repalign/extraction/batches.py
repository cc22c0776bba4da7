"""Samples in batches, read and prepared ahead of the computation, and their rows in shards.

Samples are decoded by threads, and not by the processes of torch's DataLoader: decoding leaves
Python's lock, nothing is copied between processes, and an error keeps its type.
"""

import itertools
import math
import os
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from repalign.data.samples import Sample, Source
from repalign.exceptions import InputError, ModelError
from repalign.store import StoreWriter, WriteOptions
from repalign.store.index import POOLED, SHA_BYTES, RowIndex, encode_ids

if TYPE_CHECKING:
    from torch import Tensor

    from repalign.models.inputs.items import Inputs, Item

T = TypeVar("T")
R = TypeVar("R")
Positions = NDArray[np.int64]
_END: Any = object()
# The cost of a batch without its tokens, as a part of a full one (measured on a CPU, one thread).
_BATCH_COST = 1 / 32
_MIN_SAMPLES, _MAX_SAMPLES = 16, 1024


def select_samples(
    source: Source, *, limit: int | None = None, sample: int | None = None, seed: int = 0
) -> NDArray[np.int64]:
    """Return the places of the first ``limit`` samples, of these ``sample`` at random, in order.

    Raises InputError when there is nothing to choose from, or fewer than asked at random.
    """
    total = len(source) if limit is None else min(limit, len(source))
    if total == 0:
        raise InputError("the data hold no samples; give data with at least one")
    if sample is None:
        return np.arange(total, dtype=np.int64)
    if sample > total:
        raise InputError(f"--sample {sample}, but the data hold {total} samples; lower it")
    chosen = np.random.default_rng(seed).choice(total, size=sample, replace=False)
    return np.sort(chosen).astype(np.int64)


@dataclass(frozen=True, eq=False)
class HostBatch:
    """A batch on the host.

    Attributes:
        inputs: The model's arguments.
        members: The places of its samples in the shard.
        lengths: Real tokens or states per sample, None for images.
        positions: The kept tokens of each, None when rows are pooled.
        n_units: All tokens, or the samples.
        is_cut: Which samples were longer than the model takes.
        width: Tokens of a padded sample; sides of that size shrink with a smaller batch.
    """

    inputs: "dict[str, Tensor]"
    members: NDArray[np.int64]
    lengths: "Tensor | None" = None
    positions: list[Positions] | None = None
    n_units: int = 0
    is_cut: NDArray[np.bool_] | None = None
    width: int | None = None

    @property
    def n_cut(self) -> int:
        """Number of samples that were longer than the model takes."""
        return 0 if self.is_cut is None else int(self.is_cut.sum())

    def part(self, members: slice | list[int]) -> "HostBatch":
        """Return some of the samples, no wider than the longest of them."""
        inputs = {key: tensor[members] for key, tensor in self.inputs.items()}
        lengths = None if self.lengths is None else self.lengths[members]
        positions, width = self.positions, self.width
        if positions is not None:
            positions = [positions[number] for number in np.arange(len(self.members))[members]]
        n_units = len(self.members[members])
        if width is not None and lengths is not None:
            n_units, longest = int(lengths.sum()), int(lengths.max())
            inputs = {
                key: tensor[:, :longest] if tensor.ndim > 1 and tensor.shape[1] == width else tensor
                for key, tensor in inputs.items()
            }
            width = longest
        is_cut = None if self.is_cut is None else self.is_cut[members]
        return HostBatch(inputs, self.members[members], lengths, positions, n_units, is_cut, width)

    def pinned(self) -> "HostBatch":
        """Return the batch in memory that a CUDA device copies from without waiting."""
        inputs = {key: tensor.pin_memory() for key, tensor in self.inputs.items()}
        lengths = None if self.lengths is None else self.lengths.pin_memory()
        return replace(self, inputs=inputs, lengths=lengths)


def row_index(
    samples: NDArray[np.int64],
    counts: Sequence[int] | NDArray[np.int64],
    hashes: Sequence[bytes],
    positions: Sequence[Positions] | None,
    ids: Sequence[str] | None,
) -> RowIndex:
    """Identify every row: ``samples`` are their places in the data, ``counts`` their rows."""
    tokens = np.full(sum(counts), POOLED) if positions is None else np.concatenate(positions)
    digests = np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(len(hashes), -1)
    return RowIndex(
        sample=np.repeat(samples, counts),
        token=tokens.astype(np.int32),
        sample_sha=np.repeat(digests[:, :SHA_BYTES], counts, axis=0),
        ids=None if ids is None else np.repeat(encode_ids(ids), counts),
    )


def check_activations(
    views: Mapping[str, NDArray[Any]],
    name_of: Callable[[int], str],
    advice: str = "the checkpoint is damaged or overflows: try --dtype fp32",
) -> None:
    """Check that all rows are finite.

    Args:
        views: Rows by view.
        name_of: Returns the sample of a row.
        advice: What may be wrong.

    Raises:
        ModelError: A row has NaN or infinity; the message names its view and its sample.
    """
    for view, values in views.items():
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(bad):
            raise ModelError(
                f"non-finite activations in view {view} for sample {name_of(int(bad[0]))}; {advice}"
            )


def samples_per_shard(rows_per_sample: float, row_bytes: int) -> int:
    """Return the samples of one shard, a power of two from 16 to 1024.

    They give as many rows as a shard of the store has.

    A killed run loses the shards on their way; more samples would be too much work.
    """
    fitting = WriteOptions().rows_of_shard(row_bytes) / max(1.0, rows_per_sample)
    power = 2 ** int(math.log2(max(1.0, fitting)))
    return min(_MAX_SAMPLES, max(_MIN_SAMPLES, power))


class Shard:
    """Some of the chosen samples, and their rows while batches come in; ``missing`` are to come."""

    def __init__(self, number: int, start: int, stop: int, dims: Mapping[str, int]) -> None:
        self.number, self.start, self.stop = number, start, stop
        self._dims = dims
        self._samples: list[Sample] = []
        self._positions: list[Positions] = []

    def allocate(self, counts: NDArray[np.int64]) -> None:
        """Make place for so many rows of each sample."""
        self._counts = counts
        self._offsets = np.concatenate([[0], np.cumsum(counts)])
        self.missing = int(self._offsets[-1])
        self._arrays = {
            key: np.empty((self.missing, dim), dtype=np.float32) for key, dim in self._dims.items()
        }

    def add(self, sample: Sample, positions: Positions | None) -> None:
        """Note the next sample, and the positions that are kept of it."""
        self._samples.append(sample)
        if positions is not None:
            self._positions.append(positions)

    def place(self, batch: HostBatch, rows: "Mapping[str, Tensor]") -> int:
        """Put the rows of a batch where their samples belong; return their number."""
        offsets, members = self._offsets, batch.members
        if (self._counts[members] == 1).all():
            target = offsets[members]
        else:
            target = np.concatenate([np.arange(offsets[m], offsets[m + 1]) for m in members])
        for key, values in rows.items():
            self._arrays[key][target] = values.numpy()
        self.missing -= len(target)
        return len(target)

    def write(self, writer: StoreWriter, ordinals: NDArray[np.int64], *, with_ids: bool) -> None:
        """Write the full shard; ``ordinals`` places all samples in the data.

        Raises ModelError naming the view, the sample and the token of a value that is not finite.
        """
        index = row_index(
            ordinals[self.start : self.stop],
            self._counts,
            [sample.sha256 for sample in self._samples],
            self._positions or None,
            [sample.id for sample in self._samples] if with_ids else None,
        )
        try:
            writer.write_shard(self.number, self._arrays, index)
        except InputError:
            check_activations(self._arrays, self._name_of)
            raise
        self._arrays = {}

    def _name_of(self, row: int) -> str:
        member = int(np.searchsorted(self._offsets, row, side="right")) - 1
        name = str(self._samples[member].id)
        if not self._positions:
            return name
        return f"{name}, token {self._positions[member][row - self._offsets[member]]}"


@dataclass(frozen=True)
class TokenChoice:
    """A rule that keeps some positions of every sample."""

    kind: Literal["all", "last", "stride", "sample"]
    number: int = 0

    def positions(self, length: int, *, seed: int, sample_hash: bytes) -> Positions:
        """Return the positions kept of a sample of ``length`` tokens, increasing.

        A random choice depends on the seed and on the sample's content alone, so that it is
        the same wherever the sample stands and whichever worker reads it.
        """
        everything = np.arange(length, dtype=np.int64)
        if self.kind == "last":
            return everything[-1:]
        if self.kind == "stride":
            return everything[:: self.number]
        if self.kind == "sample" and self.number < length:
            rng = np.random.default_rng([seed, int.from_bytes(sample_hash[:8], "big")])
            return np.sort(rng.choice(length, size=self.number, replace=False)).astype(np.int64)
        return everything


def parse_tokens(text: str) -> TokenChoice:
    """Parse ``all``, ``last``, ``stride:k`` or ``sample:n``.

    Raises InputError for anything else.
    """
    if text == "all":
        return TokenChoice("all")
    if text == "last":
        return TokenChoice("last")
    match = re.fullmatch(r"(stride|sample):([1-9]\d{0,8})", text)
    if match is None:
        raise InputError(f"unknown token choice {text!r}; expected all, last, stride:k or sample:n")
    kind: Literal["stride", "sample"] = "stride" if match[1] == "stride" else "sample"
    return TokenChoice(kind, int(match[2]))


@dataclass(frozen=True, eq=False)
class Feed:
    """Reads, prepares and batches the samples of shards.

    Attributes:
        source: The data.
        ordinals: Places of the chosen samples in them.
        inputs: Prepares and collates them.
        tokens: Which positions become rows, None where all are pooled.
        seed: Of the random choice of positions.
        budget: Most tokens or states of a batch, padding included, or most images.
        patches: Positions of an image that may become rows.
        workers: Threads that decode; by default one a core, at most eight.
    """

    source: Source
    ordinals: NDArray[np.int64]
    inputs: "Inputs"
    tokens: TokenChoice | None
    seed: int
    budget: int
    patches: int
    workers: int | None = None

    def batches(self, shards: Iterable[Shard]) -> Generator[tuple[Shard, HostBatch]]:
        """Yield the batches of shards; the last one completes the samples of its shard."""
        for shard in shards:
            samples = self.read(shard.start, shard.stop)
            batches = self._in_order if self.inputs.same_size else self._by_length
            yield from ((shard, batch) for batch in batches(shard, samples))

    def read(self, start: int, stop: int) -> "Iterator[tuple[Sample, Item]]":
        """Yield samples as the model takes them, in order."""
        if self.inputs.in_bulk:
            samples = [self.source.read(int(place)) for place in self.ordinals[start:stop]]
            items = self.inputs.prepare_all([sample.value for sample in samples])
            yield from zip(samples, items, strict=True)
            return
        depth = 2 * self.budget if self.inputs.same_size else stop - start
        with ThreadPoolExecutor(self.workers or default_workers(), "repalign-decode") as pool:
            yield from map_ahead(pool, self._prepare, self.ordinals[start:stop].tolist(), depth)

    def _prepare(self, place: int) -> "tuple[Sample, Item]":
        sample = self.source.read(place)
        try:
            item = self.inputs.prepare(sample.value)
        except InputError as error:
            raise InputError(f"{sample.id}: {error}") from error
        # batches wait in memory, and an original can be a hundred times its prepared image
        return Sample(sample.id, sample.sha256, ""), item

    def positions(self, sample: Sample, item: "Item") -> Positions | None:
        """Return the positions of a sample that become rows, None when they are pooled."""
        length = self._states(item, sample.id)
        if self.tokens is None:
            return None
        return self.tokens.positions(length, seed=self.seed, sample_hash=sample.sha256)

    def _states(self, item: "Item", name: str) -> int:
        """Return the number of states that the model gives for a sample."""
        return self.patches if self.inputs.same_size else self.inputs.states(item, name)

    def batch_of(self, items: "Sequence[Item]") -> HostBatch:
        """Make a batch of prepared samples, of which every position becomes a row."""
        positions: list[Positions | None] = [None] * len(items)
        if self.tokens is not None:
            positions = [np.arange(self._states(item, "0")) for item in items]
        return self._collate(np.arange(len(items)), items, positions)

    def _collate(
        self,
        members: NDArray[np.int64],
        items: "Sequence[Item]",
        positions: Sequence[Positions | None],
    ) -> HostBatch:
        inputs, lengths = self.inputs.collate(items)
        width = None
        if self.inputs.unit == "tokens":
            width = inputs[self.inputs.key].shape[1]
        return HostBatch(
            inputs=inputs,
            members=members,
            lengths=lengths,
            positions=None if positions[0] is None else [p for p in positions if p is not None],
            n_units=len(items) if width is None else sum(item.length for item in items),
            is_cut=np.array([item.is_cut for item in items], dtype=bool),
            width=width,
        )

    def _in_order(
        self, shard: Shard, samples: "Iterable[tuple[Sample, Item]]"
    ) -> Iterator[HostBatch]:
        """Group samples of one size as they come."""
        first, items, positions = 0, [], []
        for number, (sample, item) in enumerate(samples, start=1):
            positions.append(self.positions(sample, item))
            items.append(item)
            if number == 1:
                n_rows = 1 if positions[0] is None else len(positions[0])
                shard.allocate(np.full(shard.stop - shard.start, n_rows, dtype=np.int64))
            shard.add(sample, positions[-1])
            if len(items) == self.budget or number == shard.stop - shard.start:
                yield self._collate(np.arange(first, number), items, positions)
                first, items, positions = number, [], []

    def _by_length(
        self, shard: Shard, samples: "Iterable[tuple[Sample, Item]]"
    ) -> Iterator[HostBatch]:
        """Group samples of similar length."""
        pairs = list(samples)
        positions = [self.positions(sample, item) for sample, item in pairs]
        for (sample, _), chosen in zip(pairs, positions, strict=True):
            shard.add(sample, chosen)
        shard.allocate(np.array([1 if p is None else len(p) for p in positions], dtype=np.int64))
        lengths = [item.values.shape[-1] for _, item in pairs]
        # a budget of states, in steps of the prepared sample
        most_states = max(self._states(item, sample.id) for sample, item in pairs)
        budget = self.budget * max(1, max(lengths) // most_states)
        for members in plan_batches(lengths, budget, equal=self.inputs.needs_equal_lengths):
            items = [pairs[member][1] for member in members]
            yield self._collate(members, items, [positions[member] for member in members])


def default_workers() -> int:
    """Return the number of decoding threads: one per available core, at most eight."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4)


def plan_batches(
    lengths: Sequence[int], budget: int, *, equal: bool = False
) -> list[NDArray[np.int64]]:
    """Group samples of similar length, longest first, within a budget.

    A batch has at most ``budget`` tokens, padding included, and at least one sample; with
    ``equal`` samples of one length alone, and no padding. Of all ways to cut the ordered
    samples, that with the fewest tokens, where every batch counts some more for itself. (Rows
    depend in their last bits on the batch, so another rule of cutting would move stored values.)
    """
    whole = np.maximum(np.asarray(lengths, dtype=np.int64), 1)
    order = np.argsort(-whole, kind="stable")
    cut = _equal_stops if equal else _cheapest_stops
    return np.split(order, cut(whole[order], budget)[:-1])


def _equal_stops(ordered: NDArray[np.int64], budget: int) -> list[int]:
    """Return where batches of one length end."""
    stops = [0]
    while stops[-1] < len(ordered):
        width = int(ordered[stops[-1]])
        fitting = ordered[stops[-1] : stops[-1] + max(1, budget // width)]
        stops.append(stops[-1] + int((fitting == width).sum()))
    return stops[1:]


def _cheapest_stops(ordered: NDArray[np.int64], budget: int) -> list[int]:
    """Return where the batches end that cost least.

    The cheapest way to cut the samples from any one on follows from those of its successors.
    """
    count = len(ordered)
    costs, ends = np.zeros(count + 1), np.full(count + 1, count)
    for start in range(count - 1, -1, -1):
        width = int(ordered[start])
        most = min(count - start, max(1, budget // width))
        tokens = width * np.arange(1, most + 1)
        total = costs[start + 1 : start + most + 1] + tokens + budget * _BATCH_COST
        best = int(np.argmin(total))
        costs[start], ends[start] = total[best], start + best + 1
    stops = [int(ends[0])]
    while stops[-1] < count:
        stops.append(int(ends[stops[-1]]))
    return stops


def map_ahead(
    pool: ThreadPoolExecutor, function: Callable[[T], R], items: Iterable[T], depth: int
) -> Generator[R]:
    """Yield results in order, computed at most ``depth`` items ahead."""
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def prefetch(items: Iterator[T], depth: int = 4) -> Generator[T]:
    """Run an iterator on another thread, at most ``depth`` items ahead.

    An exception in the iterator is raised here; leaving early stops the thread.
    """
    with ThreadPoolExecutor(1, "repalign-feed") as thread:
        results = map_ahead(thread, lambda _: next(items, _END), itertools.count(), depth)
        try:
            yield from itertools.takewhile(lambda item: item is not _END, results)
        finally:
            results.close()


def pin_batches(
    batches: Iterable[tuple[Shard, HostBatch]],
) -> Iterator[tuple[Shard, HostBatch]]:
    """Pin batches where they are made, so that the thread of the device does not."""
    return ((shard, batch.pinned()) for shard, batch in batches)
