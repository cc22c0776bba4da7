"""Checking a device against the CPU on a few samples of the data."""

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from repalign.exceptions import ModelError
from repalign.workflows.extract.feed import HostBatch
from repalign.workflows.extract.job import ExtractJob

if TYPE_CHECKING:
    from repalign.workflows.extract.runner import BatchRunner

# of the root mean square of a view; float32 differs by about 1e-6, bf16 by about 1e-2
_TOLERANCE = {"fp32": 1e-3, "bf16": 1e-1, "fp16": 2e-2}


def verify_device(job: ExtractJob, n_samples: int) -> float:
    """Compute the first samples on the device and, in float32, on the CPU; return the gap.

    The gap is the largest deviation of a value over the root mean square of its view.

    Raises ModelError when it exceeds the tolerance of the chosen dtype.
    """
    import torch

    stop = min(n_samples, len(job.selection))
    model = job.runner.model
    on_cpu = replace(
        job.runner,
        model=replace(model, module=copy.deepcopy(model.module).cpu()),
        device=torch.device("cpu"),
        autocast=None,
    )
    events = job.feed.shard(0, 0, stop)
    gap = max(_gap(job.runner, on_cpu, event) for event in events if isinstance(event, HostBatch))
    tolerance = _TOLERANCE[job.settings.dtype]
    if not gap <= tolerance:
        raise ModelError(
            f"rows computed on {job.runner.device} deviate from the CPU by {gap:.2g} of their "
            f"size, more than {tolerance:g}; use another device, dtype or driver"
        )
    return gap


def _gap(runner: "BatchRunner", reference: "BatchRunner", batch: HostBatch) -> float:
    ours = {key: rows.cpu().numpy() for key, rows in runner.run(batch).items()}
    theirs = {key: rows.numpy() for key, rows in reference.run(batch).items()}
    return max(
        float(np.abs(ours[key] - theirs[key]).max() / np.sqrt(np.mean(theirs[key] ** 2)))
        for key in ours
    )
