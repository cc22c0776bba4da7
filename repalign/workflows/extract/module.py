"""Extraction from one's own module: any ``torch.nn.Module`` over any batches, into a store."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repalign.core.compute import exact_float32
from repalign.exceptions import InputError
from repalign.options import Settings, option
from repalign.store import StoreWriter, WriteOptions, open_store
from repalign.workflows.extract.company import compare_rows
from repalign.workflows.extract.device import choose_device
from repalign.workflows.extract.settings import ExtractResult, Speed
from repalign.workflows.extract.shards import check_activations, row_index

if TYPE_CHECKING:
    from torch import Tensor, nn

    from repalign.models.loaders.loaded import LoadedModel
    from repalign.models.views.views import View

Inputs = dict[str, "Tensor"]
_TRIED = 3


@dataclass(frozen=True)
class ModuleSettings(Settings):
    """How rows are taken of one's own module.

    Attributes:
        layers: ``final`` (what the module returns), a number, or a module's name.
        pools: From tokens or positions to rows: mean, token, cls, last.
        batch_size: Samples a batch, where a data set is given and not a loader.
        device: Where the module runs; it is moved there and back.
        code_version: What tells this code from another, such as a commit; recorded.
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
    settings: ModuleSettings,
) -> ExtractResult:
    """Run a module over batches and store the rows of its layers.

    ``data`` is a loader, a data set, or any iterable of batches that gives the same samples in
    the same order each time: tensors, tuples whose first is the input, or dictionaries that the
    module takes as keywords. The same call goes on where an earlier one stopped.

    Raises InputError for what cannot be used, ModelError for a layer whose rows are not the
    sample's own, StoreError for an unfinished store that was begun with other settings.
    """
    import torch

    device = choose_device(settings.device)
    started, was_training = time.perf_counter(), module.training
    home = next((tensor.device for tensor in module.parameters()), torch.device("cpu"))
    module.to(device).eval()
    try:
        with exact_float32():
            batches = _batches(data, settings.batch_size)
            first = next(batches(), None)
            if first is None:
                raise InputError("there are no batches to extract; give at least one")
            run = _Run(module, first, settings, device)
            run.check_company(first)
            writer = StoreWriter(
                output,
                spec=run.spec(),
                views=run.dims,
                options=WriteOptions(),
                overwrite=settings.overwrite,
                resume=not settings.overwrite,
            )
            before = writer.n_rows
            with writer:
                n_samples = run.write(writer, batches(), ids)
    finally:
        module.to(home).train(was_training)
    with open_store(output) as store:
        return ExtractResult(
            path=output,
            is_complete=True,
            n_rows=len(store),
            fingerprint=store.fingerprint,
            views=run.dims,
            rows_new=len(store) - before,
            samples=n_samples,
            speed=Speed(n_samples, "samples", time.perf_counter() - started),
            device=str(device),
        )


@dataclass
class _Run:
    """A module with the views that are wanted of it."""

    module: "nn.Module"
    first: Inputs
    settings: ModuleSettings
    device: Any
    checked: set[str] = field(default_factory=set)
    model: "LoadedModel" = field(init=False)
    views: "tuple[View, ...]" = field(init=False)
    dims: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        from repalign.models.loaders.own import describe_own
        from repalign.models.views.views import make_views

        version = self.settings.code_version
        self.model = describe_own(self.module, self._sent(self.first), version)
        self.views = make_views(self.model, self.settings.layers, self.settings.pools)
        rows, _ = self.rows({key: value[:1] for key, value in self.first.items()})
        self.dims = {key: values.shape[1] for key, values in rows.items()}

    @property
    def is_unpooled(self) -> bool:
        """Whether every token is a row."""
        return self.settings.pools == ("token",)

    def _sent(self, inputs: Inputs) -> Inputs:
        return {key: value.to(self.device) for key, value in inputs.items()}

    def rows(self, inputs: Inputs) -> tuple[dict[str, "Tensor"], list[int]]:
        """Rows of every view on the host, and how many of them each sample gives."""
        from repalign.models.views.pooling import Batch, flatten_positions
        from repalign.models.views.views import encode_batch, run_taps

        sent, lengths = self._sent(inputs), _lengths(inputs)
        count = _count(inputs)
        counts, kept = [1] * count, None
        if self.is_unpooled:
            tap = self.views[0].tap
            width = run_taps(self.model, [tap], sent)[tap.label].shape[1]
            counts = [width] * count if lengths is None else lengths.tolist()
            samples, positions = flatten_positions([np.arange(n) for n in counts])
            kept = samples.to(self.device), positions.to(self.device)
        on_device = None if lengths is None else lengths.to(self.device)
        rows = encode_batch(self.model, self.views, Batch(sent, on_device, kept))
        return {key: values.cpu() for key, values in rows.items()}, counts

    def check_company(self, inputs: Inputs) -> None:
        """Refuse layers whose rows differ from pass to pass or with their company.

        Only a batch with what none before it had is looked at: several samples, padding.
        """
        import torch

        lengths, count = _lengths(inputs), _count(inputs)
        kinds = {"passes", "several"} if count > 1 else {"passes"}
        chosen = list(range(min(count, _TRIED)))
        if lengths is not None and int(lengths.min()) < inputs["attention_mask"].shape[1]:
            kinds.add("padding")
            chosen = sorted({0, int(lengths.argmin()), int(lengths.argmax())})
        if kinds <= self.checked:
            return
        self.checked |= kinds
        tried = {key: value[chosen] for key, value in inputs.items()}
        together, _ = self.rows(tried)
        compare_rows(together, self.rows(tried)[0], "other rows at every pass: by chance")
        alone = [self.rows(_single(tried, k))[0] for k in range(len(chosen))]
        compare_rows(
            together,
            {key: torch.cat([rows[key] for rows in alone]) for key in together},
            "a sample other rows in a batch than alone: they would depend on their company",
        )

    def spec(self) -> dict[str, Any]:
        """Everything that determines the values, as plain values."""
        views = {
            view.key: {"layer": view.tap.label, "module": view.tap.module, "pool": view.pool}
            for view in self.views
        }
        return {
            "model": self.model.origin.as_dict(),
            "view": {"family": "own", "views": views},
            "dataset": {"format": "batches"},
            "numerics": {"weights": "as given", "autocast": "fp32", "device": self.device.type},
        }

    def write(
        self, writer: StoreWriter, batches: Iterator[Inputs], ids: Sequence[str] | None
    ) -> int:
        """Append the rows of all batches that are not there yet; return the number of samples."""
        from repalign.models.loaders.own import tensors_sha256

        done, sample, at = writer.n_rows, 0, 0
        is_complete = writer.is_complete
        for inputs in batches:
            count = _count(inputs)
            if sample == 0 and tensors_sha256(inputs) != tensors_sha256(self.first):
                raise InputError(
                    "the batches hold other samples when they are gone through again; give them in "
                    "one order, and without random changes"
                )
            named = None if ids is None else list(ids[sample : sample + count])
            if named is not None and len(named) < count:
                raise InputError(f"{len(ids or ())} ids for more samples; give one for each")
            # whole batches of pooled rows are passed over without running the module
            if is_complete or (not self.is_unpooled and at + count <= done):
                sample, at = sample + count, at + count
                continue
            self.check_company(inputs)
            rows, counts = self.rows(inputs)
            hashes = [tensors_sha256(_single(inputs, k)) for k in range(count)]
            tokens = [np.arange(n) for n in counts] if self.is_unpooled else None
            index = row_index(np.arange(sample, sample + count), counts, hashes, tokens, named)
            skipped = max(0, min(len(index), done - at))
            if skipped < len(index):
                part = {key: values[skipped:].numpy() for key, values in rows.items()}
                left = index.slice(skipped, len(index))
                check_activations(part, left.name_of, "the module makes them of that")
                writer.append(part, left)
            sample, at = sample + count, at + len(index)
        if ids is not None and len(ids) != sample:
            raise InputError(f"{len(ids)} ids for {sample} samples; give one for each")
        return sample


def _single(inputs: Inputs, k: int) -> Inputs:
    """One sample of a batch, cut to its own length."""
    one = {key: value[k : k + 1] for key, value in inputs.items()}
    lengths = _lengths(one)
    if lengths is None:
        return one
    width, whole = int(lengths[0]), one["attention_mask"].shape[1]
    return {
        key: value[:, :width] if value.ndim >= 2 and value.shape[1] == whole else value
        for key, value in one.items()
    }


def _count(inputs: Inputs) -> int:
    return len(next(iter(inputs.values())))


def _lengths(inputs: Inputs) -> "Tensor | None":
    mask = inputs.get("attention_mask")
    if mask is None or mask.ndim != 2:
        return None
    lengths = mask.long().sum(1)
    import torch

    padded = torch.arange(mask.shape[1])[None] < lengths[:, None]
    if not torch.equal(padded, mask.bool()):
        raise InputError("attention_mask: padding must stand on the right; set padding_side")
    return lengths


def _batches(data: Iterable[Any], batch_size: int) -> Any:
    """Return a function that begins the batches anew."""
    from torch.utils.data import DataLoader, Dataset, RandomSampler

    if isinstance(data, Dataset):
        data = DataLoader(data, batch_size=batch_size)
    if isinstance(data, DataLoader) and isinstance(data.sampler, RandomSampler):
        raise InputError("the loader shuffles its samples; build it with shuffle=False")
    if iter(data) is data:
        raise InputError("got an iterator, which ends after one pass; give a list or a loader")

    def batches() -> Iterator[Inputs]:
        for number, batch in enumerate(data):
            yield _inputs(batch, number)

    return batches


def _inputs(batch: Any, number: int) -> Inputs:
    from torch import Tensor

    if isinstance(batch, tuple | list) and batch:
        batch = batch[0]
    if isinstance(batch, Tensor):
        batch = {"": batch}
    if isinstance(batch, Mapping):
        found = {str(key): value for key, value in batch.items() if isinstance(value, Tensor)}
        if found and len({len(value) for value in found.values() if value.ndim}) == 1:
            return found
    raise InputError(
        f"batch {number} is a {type(batch).__name__}; expected a tensor, a tuple that begins with "
        "one, or a dictionary of tensors with one row a sample"
    )
