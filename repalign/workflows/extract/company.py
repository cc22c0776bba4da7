"""Whether the rows of a sample are its own: the same alone, in company, at every pass, anywhere."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from repalign.exceptions import ModelError
from repalign.workflows.extract.feed import HostBatch
from repalign.workflows.extract.runner import BatchRunner

if TYPE_CHECKING:
    from torch import Tensor

    from repalign.models.inputs.text import TextEncoder
    from repalign.models.loaders.loaded import SoundInput

_LENGTHS = (5, 9, 64)
# of the root mean square of a view; float32 in other batches or on another device differs by 1e-6
# to 1e-4, bf16 by about 1e-2
_TOLERANCE = {"fp32": 1e-3, "bf16": 1e-1, "fp16": 2e-2}
# rows of every sample by view
SampleRows = Mapping[str, Sequence["Tensor"]]


def check_company(runner: BatchRunner, samples: Sequence[HostBatch], together: HostBatch) -> None:
    """Run samples together, again, and each alone, in float32.

    ``samples`` are batches of one, ``together`` holds the same in the other order.

    Raises ModelError for a view whose rows differ from pass to pass, or with the company that
    they keep.
    """
    plain = replace(runner, autocast=None)
    batch = _rows(plain, together)
    _compare(batch, _rows(plain, together), "other rows at every pass: it drops or masks at random")
    alone = [_rows(plain, sample) for sample in reversed(samples)]
    _compare(
        batch,
        {key: [rows[key][0] for rows in alone] for key in batch},
        "a sample other rows in a batch than alone: they would depend on their company",
    )


def text_samples(
    encoder: "TextEncoder", *, masked: bool, unpooled: bool
) -> tuple[list[HostBatch], HostBatch]:
    """Two short texts and a long one of random tokens: each alone, and all in the other order."""
    import torch

    from repalign.models.inputs.text import pad_batch

    rng = np.random.default_rng(0)
    texts = []
    for length in _LENGTHS:
        ids = rng.integers(0, encoder.vocabulary_rows, min(length, encoder.max_length))
        # padding inside a text would be hidden from some models
        texts.append(np.where(ids == encoder.pad_id, (ids + 1) % encoder.vocabulary_rows, ids))

    def batch(part: list[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> HostBatch:
        inputs, lengths = pad_batch(part, encoder.pad_id, masked=masked)
        positions = [np.arange(len(ids)) for ids in part] if unpooled else None
        return HostBatch(inputs, np.arange(len(part)), lengths, positions, int(torch.sum(lengths)))

    return [batch([ids]) for ids in texts], batch(texts[::-1])


def image_samples(
    channels: int, size: Sequence[int], patches: int | None
) -> tuple[list[HostBatch], HostBatch]:
    """Three images of noise: each alone, and all in the other order.

    ``patches`` is the number of rows that each gives, None when rows are pooled.
    """
    import torch

    images = torch.randn(3, channels, *size, generator=torch.Generator().manual_seed(0))

    def batch(part: "Tensor") -> HostBatch:
        count = len(part)
        positions = None if patches is None else [np.arange(patches)] * count
        return HostBatch({"pixel_values": part}, np.arange(count), None, positions, count)

    return [batch(images[k : k + 1]) for k in range(3)], batch(images.flip(0))


def sound_samples(sound: "SoundInput", *, unpooled: bool) -> tuple[list[HostBatch], HostBatch]:
    """Three sounds of noise: each alone, and all in the other order.

    They are of other lengths where the model is told which part of a batch is padding.
    """
    from repalign.models.inputs.sounds import Prepared, pad_sounds

    rng, longest = np.random.default_rng(0), sound.shape[-1]
    lengths = [longest] * 3 if sound.is_apart else [longest // 2, longest * 2 // 3, longest]
    is_wave = len(sound.shape) == 1
    sounds = [
        Prepared(rng.normal(size=(n,) if is_wave else sound.shape).astype(np.float32), n, False)
        for n in lengths
    ]

    def batch(part: list[Prepared]) -> HostBatch:
        inputs, counts = pad_sounds(part, sound)
        positions = [np.arange(int(n)) for n in counts] if unpooled else None
        return HostBatch(inputs, np.arange(len(part)), counts, positions, len(part))

    return [batch([one]) for one in sounds], batch(sounds[::-1])


def _rows(runner: BatchRunner, batch: HostBatch) -> SampleRows:
    import torch

    counts = [1] * len(batch.members)
    if batch.positions is not None:
        counts = [len(kept) for kept in batch.positions]
    return {key: torch.split(rows.cpu(), counts) for key, rows in runner.run(batch).items()}


def _compare(batch: SampleRows, others: SampleRows, reason: str) -> None:
    import torch

    compare_rows(
        {key: torch.cat(list(rows)) for key, rows in batch.items()},
        {key: torch.cat(list(rows)) for key, rows in others.items()},
        reason,
    )


def compare_rows(ours: Mapping[str, "Tensor"], theirs: Mapping[str, "Tensor"], reason: str) -> None:
    """Refuse rows that differ by more than rounding.

    Raises ModelError with the reason.
    """
    for key, rows in ours.items():
        gap = _gap(theirs[key], rows)
        # what is no number is told later, with the sample that it belongs to
        if gap > _TOLERANCE["fp32"]:
            raise ModelError(
                f"the layer {key!r} gives {reason} (by {gap:.2g} of their size); choose another"
            )


def verify_device(runner: BatchRunner, batches: Iterable[HostBatch], dtype: str) -> float:
    """Compute some batches on the device and, in float32, on the CPU; return the gap.

    The gap is the largest deviation of a value over the root mean square of its view.

    Raises ModelError when it exceeds the tolerance of the chosen dtype.
    """
    import torch

    on_cpu = replace(
        runner,
        model=replace(runner.model, module=copy.deepcopy(runner.model.module).cpu()),
        device=torch.device("cpu"),
        autocast=None,
    )
    gaps = []
    for batch in batches:
        ours, theirs = runner.run(batch), on_cpu.run(batch)
        gaps += [_gap(rows.cpu(), theirs[key]) for key, rows in ours.items()]
    gap = float(np.max(gaps))  # not a number if any is
    if not gap <= _TOLERANCE[dtype]:
        raise ModelError(
            f"rows computed on {runner.device} deviate from the CPU by {gap:.2g} of their "
            f"size, more than {_TOLERANCE[dtype]:g}; use another device, dtype or driver"
        )
    return gap


def _gap(rows: "Tensor", reference: "Tensor") -> float:
    """Largest deviation of a value over the root mean square of the reference."""
    difference = (rows - reference).abs().max()
    return float(difference / reference.square().mean().sqrt()) if difference else 0.0
