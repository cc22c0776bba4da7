"""Extraction from any ``torch.nn.Module`` over any batches, into a store."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repalign.core.device import exact_float32
from repalign.exceptions import InputError
from repalign.extraction.batches import HostBatch, check_activations, row_index
from repalign.extraction.device import Runner, check_batch_invariance, choose_device
from repalign.extraction.settings import ExtractResult, Speed
from repalign.options import Settings, option
from repalign.store import StoreWriter, WriteOptions, open_store

if TYPE_CHECKING:
    from torch import Tensor, nn

Batches = Callable[[], Iterator[HostBatch]]
_CHECKED = 3


@dataclass(frozen=True)
class ModuleSettings(Settings):
    """How rows are taken of the user's own module.

    Attributes:
        layers: ``final`` (what the module returns), a number, or a module's name.
        pools: From tokens or positions to rows: mean, token, cls, last.
        batch_size: Samples a batch, where a data set is given and not a loader.
        device: Where the module runs; it is moved there and back.
        code_version: Names the version of the code, such as a commit; recorded.
        overwrite: Replace the output if it exists.
    """

    layers: tuple[str, ...] = option(("final",), "Layers.")
    pools: tuple[str, ...] = option(
        ("mean",), "Poolings.", choices=("mean", "token", "cls", "last")
    )
    batch_size: int = option(32, "Samples a batch.", least=1)
    device: str = option("auto", "Device.")
    code_version: str | None = option(None, "Version of the code.")
    overwrite: bool = option(False, "Replace the output.")


def extract_module(
    module: "nn.Module",
    data: Iterable[Any],
    output: Path,
    ids: Sequence[str] | None,
    options: Mapping[str, Any],
) -> ExtractResult:
    """Run a module over batches and store the rows of its layers.

    ``data`` is a loader, a data set, or any iterable of batches that gives the same samples in
    the same order each time: tensors, tuples whose first is the input, or dictionaries that the
    module takes as keywords. The same call goes on where an earlier one stopped.

    ``options`` are those of ``ModuleSettings``.

    Raises InputError for what cannot be used, ModelError for a layer whose rows depend on the
    batch, StoreError for an unfinished store that was begun with other settings.
    """
    import torch

    settings = _settings(options)
    if not isinstance(data, Iterable) and not hasattr(data, "__getitem__"):
        raise InputError(f"data: got {type(data).__name__}, expected a loader or a list of batches")
    device = choose_device(settings.device)
    started, was_training = time.perf_counter(), module.training
    home = next((tensor.device for tensor in module.parameters()), torch.device("cpu"))
    module.to(device).eval()
    try:
        with exact_float32():
            batches = _open_batches(data, settings.batch_size)
            first = next(batches(), None)
            if first is None:
                raise InputError("there are no batches to extract; give at least one")
            runner = _runner(module, first, settings, device)
            check = _BatchCheck(runner)
            check(first)
            rows = runner.run(first.part(slice(1)))
            writer = StoreWriter(
                output,
                spec=_spec(runner),
                views={key: values.shape[1] for key, values in rows.items()},
                options=WriteOptions(),
                overwrite=settings.overwrite,
                resume=not settings.overwrite,
            )
            before = writer.n_rows
            with writer:
                n_samples = _write(runner, check, writer, _same_again(batches(), first), ids)
    finally:
        module.to(home).train(was_training)
    with open_store(output) as store:
        return ExtractResult(
            path=output,
            is_complete=True,
            n_rows=len(store),
            fingerprint=store.fingerprint,
            views={key: values.shape[1] for key, values in rows.items()},
            rows_new=len(store) - before,
            samples=n_samples,
            speed=Speed(n_samples, "samples", time.perf_counter() - started),
            device=str(device),
        )


def _settings(options: Mapping[str, Any]) -> ModuleSettings:
    names = ModuleSettings.__dataclass_fields__
    unknown = sorted(options.keys() - names.keys())
    if unknown:
        raise InputError(f"no option {unknown[0]!r}; expected {', '.join(sorted(names))}")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
    }
    return ModuleSettings(**values)


def _runner(module: "nn.Module", first: HostBatch, settings: ModuleSettings, device: Any) -> Runner:
    from repalign.models.capture import make_views
    from repalign.models.custom import encoder_from_module

    inputs = {key: value.to(device) for key, value in first.inputs.items()}
    encoder = encoder_from_module(module, inputs, settings.code_version)
    return Runner(encoder, make_views(encoder, settings.layers, settings.pools), device)


@dataclass
class _BatchCheck:
    """Checks a batch for what none before it had: several samples, padding."""

    runner: Runner
    checked: set[str] = field(default_factory=set)

    def __call__(self, batch: HostBatch) -> None:
        """Refuse layers whose rows differ from pass to pass or with the batch."""
        count, lengths = len(batch.members), batch.lengths
        kinds = {"passes", "several"} if count > 1 else {"passes"}
        places = list(range(min(count, _CHECKED)))
        if lengths is not None and int(lengths.min()) < (batch.width or 0):
            kinds.add("padding")
            places = sorted({0, int(lengths.argmin()), int(lengths.argmax())})
        if kinds <= self.checked:
            return
        self.checked |= kinds
        alone = [batch.part([number]) for number in places]
        check_batch_invariance(self.runner, batch.part(places), alone)


def _spec(runner: Runner) -> dict[str, Any]:
    """Return everything that determines the values, as plain values."""
    views = {
        view.key: {"layer": view.tap.label, "module": view.tap.module, "pool": view.pool}
        for view in runner.views
    }
    return {
        "model": runner.encoder.origin.as_dict(),
        "view": {"family": "own", "views": views},
        "dataset": {"format": "batches"},
        "numerics": {"weights": "as given", "autocast": "fp32", "device": runner.device.type},
    }


def _write(
    runner: Runner,
    check: _BatchCheck,
    writer: StoreWriter,
    batches: Iterator[HostBatch],
    ids: Sequence[str] | None,
) -> int:
    """Append the rows that are not there yet; return the number of samples."""
    from repalign.models.custom import tensors_sha256

    done, sample, n_rows = writer.n_rows, 0, 0
    is_unpooled, is_complete = runner.views[0].pool == "token", writer.is_complete
    for batch in batches:
        count = len(batch.members)
        batch_ids = None if ids is None else list(ids[sample : sample + count])
        if batch_ids is not None and len(batch_ids) < count:
            raise InputError(f"{len(ids or ())} ids for more samples; give one for each")
        # whole batches of pooled rows are skipped without running the module
        if is_complete or (not is_unpooled and n_rows + count <= done):
            sample, n_rows = sample + count, n_rows + count
            continue
        check(batch)
        for part, rows in runner.run_fitting(batch):
            values = {key: value.cpu().numpy() for key, value in rows.items()}
            counts, tokens = [1] * len(part.members), None
            if is_unpooled:
                width = len(next(iter(values.values()))) // len(part.members)
                lengths = part.lengths
                counts = [width] * len(part.members) if lengths is None else lengths.tolist()
                tokens = [np.arange(n) for n in counts]
            index = row_index(
                sample + part.members,
                counts,
                [tensors_sha256(batch.part([member]).inputs) for member in part.members],
                tokens,
                None if batch_ids is None else [batch_ids[member] for member in part.members],
            )
            skipped = max(0, min(len(index), done - n_rows))
            n_rows += len(index)
            if skipped < len(index):
                left = index.slice(skipped, len(index))
                values = {key: value[skipped:] for key, value in values.items()}
                check_activations(values, left.name_of, "the module makes them of that")
                writer.append(values, left)
        sample += count
    if ids is not None and len(ids) != sample:
        raise InputError(f"{len(ids)} ids for {sample} samples; give one for each")
    return sample


def _same_again(batches: Iterator[HostBatch], first: HostBatch) -> Iterator[HostBatch]:
    """Yield batches; refuse them where the first holds other samples than before."""
    from repalign.models.custom import tensors_sha256

    for number, batch in enumerate(batches):
        if number == 0 and tensors_sha256(batch.inputs) != tensors_sha256(first.inputs):
            raise InputError(
                "the batches hold other samples when they are gone through again; give them in "
                "one order, and without random changes"
            )
        yield batch


def _open_batches(data: Iterable[Any], batch_size: int) -> Batches:
    """Return a function that begins the batches anew."""
    from torch.utils.data import DataLoader, Dataset, RandomSampler

    if isinstance(data, Dataset):
        data = DataLoader(data, batch_size=batch_size)
    if isinstance(data, DataLoader) and isinstance(data.sampler, RandomSampler):
        raise InputError("the loader shuffles its samples; build it with shuffle=False")
    if iter(data) is data:
        raise InputError("got an iterator, which ends after one pass; give a list or a loader")
    return lambda: (_host_batch(batch, number) for number, batch in enumerate(data))


def _host_batch(batch: Any, number: int) -> HostBatch:
    from torch import Tensor

    if isinstance(batch, tuple | list) and batch:
        batch = batch[0]
    if isinstance(batch, Tensor):
        batch = {"": batch}
    if isinstance(batch, Mapping):
        inputs = {str(key): value for key, value in batch.items() if isinstance(value, Tensor)}
        counts = {len(value) for value in inputs.values() if value.ndim}
        if len(counts) == 1:
            (count,) = counts
            lengths = _lengths(inputs)
            width = None if lengths is None else inputs["attention_mask"].shape[1]
            return HostBatch(inputs, np.arange(count), lengths, n_units=count, width=width)
    raise InputError(
        f"batch {number} is a {type(batch).__name__}; expected a tensor, a tuple that begins with "
        "one, or a dictionary of tensors with one row a sample"
    )


def _lengths(inputs: "dict[str, Tensor]") -> "Tensor | None":
    mask = inputs.get("attention_mask")
    if mask is None or mask.ndim != 2:
        return None
    import torch

    lengths = mask.long().sum(1)
    padded = torch.arange(mask.shape[1])[None] < lengths[:, None]
    if not torch.equal(padded, mask.bool()):
        raise InputError("attention_mask: padding must stand on the right; set padding_side")
    return lengths
