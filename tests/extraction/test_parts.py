"""The parts of an extraction: plans, batches that do not fit, feeds, devices."""

import gc
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from repalign.core.device import exact_float32
from repalign.data.samples import Sample
from repalign.exceptions import InputError, ModelError
from repalign.extraction.batches import (
    Feed,
    HostBatch,
    Shard,
    pin_batches,
    plan_batches,
    prefetch,
    samples_per_shard,
)
from repalign.extraction.device import (
    Runner,
    choose_device,
    read_local_rank,
    read_rank,
    rows_on_host,
)
from repalign.extraction.run import extract
from repalign.extraction.settings import ExtractSettings
from repalign.models import capture
from repalign.models.capture import Batch, encode, make_views
from repalign.models.encoder import is_out_of_memory, running
from repalign.models.inputs.images import parse_canonical
from repalign.models.inputs.text import pad_batch
from repalign.models.load import load_encoder
from repalign.store import open_store


@given(st.lists(st.integers(1, 100), min_size=1, max_size=60), st.integers(1, 500))
def test_batches_hold_every_sample_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = plan_batches(lengths, budget)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[k] for k in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget
    widths = [max(lengths[k] for k in batch) for batch in batches]
    assert widths == sorted(widths, reverse=True)


def test_batches_have_less_padding_than_full_ones_in_order() -> None:
    lengths = np.random.default_rng(0).geometric(0.05, 200)
    ordered, full = np.sort(lengths)[::-1], []
    while sum(map(len, full)) < 200:
        rest = ordered[sum(map(len, full)) :]
        full.append(rest[: max(1, 512 // rest[0])])

    def tokens(batches: list[np.ndarray]) -> int:
        return int(sum(batch.max() * len(batch) for batch in batches))

    found = [lengths[batch] for batch in plan_batches(lengths.tolist(), 512)]
    assert int(lengths.sum()) <= tokens(found) < 0.98 * tokens(full)
    assert len(found) <= 2 * len(full)
    # one long text among many short ones pads none of them
    assert [len(batch) for batch in plan_batches([400, *[2] * 90], 512)] == [1, 90]


def test_samples_that_stay_apart_share_batches_of_one_length() -> None:
    lengths = [7, 3, 7, 3, 3, 5, 7]
    found = plan_batches(lengths, 14, equal=True)
    assert [[lengths[k] for k in batch] for batch in found] == [[7, 7], [7], [5], [3, 3, 3]]


@pytest.mark.parametrize(
    ("rows", "row_bytes", "expected"),
    [(1, 4, 1024), (1, 3072, 1024), (100, 3072, 256), (2048, 3072, 16), (10**9, 3072, 16)],
)
def test_the_size_of_shards(rows: int, row_bytes: int, expected: int) -> None:
    assert samples_per_shard(rows, row_bytes) == expected


def test_ranks_come_from_the_environment() -> None:
    assert read_rank({}) == (0, 1)
    assert read_rank({"RANK": "1", "WORLD_SIZE": "4", "SLURM_PROCID": "2"}) == (1, 4)
    assert read_rank({"SLURM_PROCID": "2", "SLURM_NTASKS": "3"}) == (2, 3)
    with pytest.raises(InputError, match=r"RANK=4 .*WORLD_SIZE=4"):
        read_rank({"RANK": "4", "WORLD_SIZE": "4"})
    with pytest.raises(InputError, match=r"RANK=x .*WORLD_SIZE=4"):
        read_rank({"RANK": "x", "WORLD_SIZE": "4"})


class Cramped(nn.Module):
    """A model that pretends to have memory for so many tokens per batch."""

    def __init__(self, inner: nn.Module, capacity: int) -> None:
        super().__init__()
        self.inner = inner
        self.capacity = capacity
        self.sizes: list[int] = []

    def forward(self, input_ids: torch.Tensor, **more: Any) -> Any:
        self.sizes.append(input_ids.numel())
        if input_ids.numel() > self.capacity:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
        return self.inner(input_ids=input_ids, **more)


def cramped_runner(tiny: ModuleType, folder: Path, capacity: int) -> Runner:
    model = load_encoder(str(tiny.save_transformers(folder / "bert", "bert")))
    views = make_views(model, (), ("mean",))
    inner = Cramped(model.module, capacity)

    def call(module: nn.Module, inputs: Any) -> Any:
        if "attention_mask" in inputs:
            inputs = {**inputs, "attention_mask": inputs["attention_mask"].long()}
        with running(module):
            return inner(**inputs).last_hidden_state

    roomy = Runner(model, views, torch.device("cpu"))
    object.__setattr__(model, "forward", call)
    return roomy


def cramped_sizes(runner: Runner) -> list[int]:
    """Return the sizes of all batches that the model was given, as they come."""
    (inner,) = (
        cell.cell_contents
        for cell in runner.encoder.forward.__closure__ or ()
        if isinstance(cell.cell_contents, Cramped)
    )
    return inner.sizes


def mixed_batch(runner: Runner) -> HostBatch:
    ids = [np.full(length, 5, dtype=np.int64) for length in (9, 8, 3, 2, 1)]
    inputs, lengths = pad_batch(ids, 0, masked=runner.encoder.needs_mask)
    return HostBatch(inputs, np.arange(5), lengths, n_units=23, width=9)


def test_a_batch_that_does_not_fit_is_halved_and_stays_right(
    tiny: ModuleType, tmp_path: Path
) -> None:
    runner = cramped_runner(tiny, tmp_path, 10**6)
    batch = mixed_batch(runner)
    ((_, whole),) = runner.run_fitting(batch)
    small = cramped_runner(tiny, tmp_path, 10)
    parts = list(small.run_fitting(batch))
    assert len(parts) > 2
    members = np.concatenate([part.members for part, _ in parts])
    assert members.tolist() == [0, 1, 2, 3, 4]
    rows = torch.cat([rows["final"] for _, rows in parts])
    torch.testing.assert_close(rows, whole["final"], atol=1e-5, rtol=1e-5)
    assert sum(part.n_units for part, _ in parts) == 23


def test_the_size_that_fitted_is_remembered(tiny: ModuleType, tmp_path: Path) -> None:
    runner = cramped_runner(tiny, tmp_path, 16)
    sizes = cramped_sizes(runner)
    ids = torch.full((8, 8), 5)
    batch = HostBatch({"input_ids": ids}, np.arange(8), torch.full((8,), 8), width=8)
    for _ in range(5):
        assert sum(len(part.members) for part, _ in runner.run_fitting(batch)) == 8
    assert sizes == [64, 32, *[16] * 20]


def test_memory_that_runs_out_while_rows_are_copied_halves_the_batch(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_encoder(str(tiny.save_transformers(tmp_path / "neox", "gpt_neox")))
    views = make_views(model, ("0", "-1"), ("token",))
    runner = Runner(model, views, torch.device("cpu"))
    pool, n_rows = capture.pool_rows, []

    def copy(hidden: torch.Tensor, *more: Any) -> torch.Tensor:
        rows = pool(hidden, *more)
        if len(rows) > 16:
            raise torch.OutOfMemoryError("CUDA out of memory")
        n_rows.append(len(rows))
        return rows

    monkeypatch.setattr(capture, "pool_rows", copy)
    ids = torch.full((8, 8), 5)
    batch = HostBatch({"input_ids": ids}, np.arange(8), torch.full((8,), 8), width=8)
    assert sum(len(rows["block-3"]) for _, rows in runner.run_fitting(batch)) == 64
    assert n_rows == [16] * 8, "two views of four quarters"


@pytest.mark.parametrize(
    "message",
    ["CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "out of memory"],
)
def test_memory_that_runs_out_is_known_by_its_message(message: str) -> None:
    assert is_out_of_memory(RuntimeError(message))
    assert not is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED"))


def test_a_sample_that_does_not_fit_is_an_error(tiny: ModuleType, tmp_path: Path) -> None:
    runner = cramped_runner(tiny, tmp_path, 8)
    with pytest.raises(ModelError, match="memory of cpu"):
        list(runner.run_fitting(mixed_batch(runner)))


def test_other_errors_of_torch_are_told_in_one_line(tiny: ModuleType, tmp_path: Path) -> None:
    runner = cramped_runner(tiny, tmp_path, 10**6)
    wrong = HostBatch({"input_ids": torch.full((1, 2), 10**6)}, np.arange(1))
    with pytest.raises(ModelError, match=r"BertModel .*out of range"):
        list(runner.run_fitting(wrong))


def test_halves_are_no_wider_than_their_samples() -> None:
    inputs = {"input_ids": torch.ones(4, 9), "attention_mask": torch.ones(4, 9)}
    is_cut = np.array([True, True, False, True])
    lengths = torch.tensor([9, 8, 3, 2])
    batch = HostBatch(inputs, np.arange(4), lengths, n_units=22, is_cut=is_cut, width=9)
    first, second = batch.part(slice(None, 2)), batch.part(slice(2, None))
    assert first.inputs["input_ids"].shape == (2, 9)
    assert second.inputs["input_ids"].shape == (2, 3)
    assert second.inputs["attention_mask"].shape == (2, 3)
    assert (first.n_units, second.n_units) == (17, 5)
    assert (first.n_cut, second.n_cut) == (2, 1)


def test_prefetching_keeps_order_bounds_memory_and_passes_errors_on() -> None:
    assert list(prefetch(iter(range(100)), depth=3)) == list(range(100))
    made = []

    def endless() -> Iterator[int]:
        for number in range(10**9):
            made.append(number)
            yield number

    items = prefetch(endless(), depth=3)
    assert next(items) == 0
    items.close()
    assert len(made) <= 7
    assert not any(thread.name == "repalign-feed" for thread in threading.enumerate())

    def failing() -> Iterator[int]:
        yield 1
        raise InputError("broken")

    with pytest.raises(InputError, match="broken"):
        list(prefetch(failing()))


def test_batches_are_pinned_by_the_thread_that_makes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        threads.append(threading.current_thread().name)
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    batch = HostBatch({"input_ids": torch.ones(2, 3)}, np.arange(2), torch.full((2,), 3))
    shard = Shard(0, 0, 2, {"final": 1})
    assert [part.members.tolist() for _, part in prefetch(pin_batches([(shard, batch)]))] == [
        [0, 1]
    ]
    assert len(threads) == 2, "inputs and lengths"
    assert all(name.startswith("repalign-feed") for name in threads)


def test_originals_of_images_are_let_go_once_they_are_prepared() -> None:
    originals = []

    class Photographs:
        description: ClassVar[dict[str, object]] = {}

        def __len__(self) -> int:
            return 6

        def read(self, index: int) -> Sample:
            image = Image.new("RGB", (64, 48))
            originals.append(weakref.ref(image))
            return Sample(str(index), bytes(32), image)

    inputs = parse_canonical("canonical8", 3)
    assert inputs is not None
    feed = Feed(Photographs(), np.arange(6), inputs, None, 0, budget=2, patches=1, workers=2)
    shard = Shard(0, 0, 6, {"final": 1})
    batches = list(feed.batches([shard]))
    assert all(batch.inputs["pixel_values"].dtype == torch.uint8 for _, batch in batches)
    gc.collect()
    assert [image() for image in originals] == [None] * 6


def test_devices_are_never_replaced() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    if not torch.backends.mps.is_available():
        assert choose_device("auto").type == expected
        with pytest.raises(InputError, match="device mps"):
            choose_device("mps")
    with pytest.raises(InputError, match=r"device cuda:99 "):
        choose_device("cuda:99")
    for name in ("gpu", "cuda:x", "cpu:1", ""):
        with pytest.raises(InputError, match="cuda:N or mps"):
            choose_device(name)


@pytest.mark.parametrize(
    ("variables", "name", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3"}, "auto", "cuda:3"),
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3"}, "cuda", "cuda:3"),
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3"}, "cuda:1", "cuda:1"),
        ({"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "5"}, "auto", "cuda:1"),
        ({"SLURM_PROCID": "6", "SLURM_NTASKS": "8", "SLURM_LOCALID": "2"}, "auto", "cuda:2"),
        ({"SLURM_LOCALID": "2"}, "auto", "cuda"),
        ({}, "auto", "cuda"),
    ],
)
def test_processes_of_a_launcher_take_the_devices_in_turn(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: str, expected: str
) -> None:
    for variable in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert choose_device(name) == torch.device(expected)


def test_a_local_rank_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(InputError, match="LOCAL_RANK"):
        read_local_rank({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "x"})


class CudaRows:
    """Rows that say they lie on a CUDA device; copies take from the host."""

    def __init__(self, index: int) -> None:
        self.device, self.shape, self.dtype = torch.device("cuda", index), (2,), torch.float32


def test_copies_are_waited_for_on_the_device_that_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = []

    class Host:
        def copy_(self, row: CudaRows, *, non_blocking: bool) -> str:
            return f"from {row.device}"

    class Event:
        def record(self, stream: object = None) -> None:
            recorded.append(stream)

        def synchronize(self) -> None: ...

    monkeypatch.setattr(torch, "empty", lambda *_, **__: Host())
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: f"stream of {device}")
    rows: Any = {"final": CudaRows(3)}
    results = rows_on_host(iter([("first", rows), ("second", rows)]))
    assert next(results) == ("first", {"final": "from cuda:3"})
    assert recorded == ["stream of cuda:3"] * 2, "one batch behind"
    assert [tag for tag, _ in results] == ["second"]


@pytest.mark.parametrize("layers", [("final",), ("final", "0")])
def test_models_are_checked_in_float32_too(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: tuple[str, ...]
) -> None:
    seen = set()

    def watched(*arguments: Any, **options: Any) -> Any:
        seen.add(torch.backends.cudnn.conv.fp32_precision)
        return run(*arguments, **options)

    run = capture.forward
    monkeypatch.setattr(capture, "forward", watched)
    directory = tiny.save_transformers(tmp_path / "vit", "vit")
    np.save(tmp_path / "images.npy", np.zeros((2, 32, 32), np.uint8))
    output = tmp_path / "a.h5"
    extract(ExtractSettings(str(directory), str(tmp_path / "images.npy"), output, layers=layers))
    assert seen == {"ieee"}


def test_rows_on_the_host_are_handed_out_at_once() -> None:
    results = iter([("a", {"v": torch.ones(2)}), ("b", {"v": torch.zeros(2)})])
    assert next(rows_on_host(results))[0] == "a"
    assert next(results)[0] == "b"


FAMILIES = (
    "gpt_neox",
    "gpt2",
    "llama",
    "bert",
    "roberta",
    "distilbert",
    "vit",
    "vit_mae",
    "resnet",
)


@pytest.mark.parametrize("pool", ["default", "token"])
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_pinned_to_the_cpu_or_waits_for_the_device(
    tiny: ModuleType, tmp_path: Path, family: str, pool: str
) -> None:
    """Fake CUDA tensors know devices and shapes but no values.

    An operation on two devices fails on them, and so does reading a value on the host, which on
    a GPU would make it wait.
    """
    model = load_encoder(str(tiny.save_transformers(tmp_path / family, family)))
    views = make_views(model, ("final", "-1"), () if pool == "default" else (pool,))
    device = torch.device("cuda", 0)
    with FakeTensorMode(allow_non_fake_inputs=False) as mode:
        on_device(model.module, mode, device)
        inputs: dict[str, torch.Tensor] = {}
        lengths = None
        if model.family.kind == "text":
            inputs["input_ids"] = torch.zeros(3, 7, dtype=torch.int64, device=device)
            lengths = torch.ones(3, dtype=torch.int64, device=device)
        else:
            inputs["pixel_values"] = torch.zeros(3, 3, 32, 32, device=device)
        if model.needs_mask and lengths is not None:
            inputs["attention_mask"] = torch.ones(3, 7, dtype=torch.bool, device=device)
        index = torch.zeros(5, dtype=torch.int64, device=device)
        rows = encode(model, views, Batch(inputs, lengths, (index, index)))
    assert all(value.device.type == "cuda" for value in rows.values())
    assert all(value.dtype == torch.float32 for value in rows.values())


def on_device(module: nn.Module, mode: FakeTensorMode, device: torch.device) -> None:
    for part in module.modules():
        for store in (part._parameters, part._buffers):
            for name, value in store.items():
                if value is not None:
                    fake = torch.empty(value.shape, dtype=value.dtype, device=device)
                    store[name] = nn.Parameter(fake, False) if store is part._parameters else fake


def test_the_check_for_waiting_can_fail() -> None:
    with FakeTensorMode(), pytest.raises(DataDependentOutputException):
        bool(torch.zeros(2, device="cuda").all())


def test_cuda_may_multiply_in_tf32_where_it_is_asked_for(tmp_path: Path) -> None:
    with exact_float32(tf32=True):
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
        assert torch.backends.cudnn.conv.fp32_precision == "tf32"
        assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
    settings = ExtractSettings("m", "d", tmp_path / "a.h5", device="cpu", dtype="tf32")
    with pytest.raises(InputError, match="tf32"):
        extract(settings)


@pytest.mark.parametrize("family", ["gpt_neox", "bert", "vit", "timm"])
def test_weights_in_half_the_memory_give_nearly_the_same_rows(
    tiny: ModuleType, tmp_path: Path, family: str
) -> None:
    folder, data = tmp_path / family, tmp_path / "texts.txt"
    data.write_text("\n".join(tiny.TEXTS))
    if family in ("vit", "timm"):
        data = tmp_path / "images.npy"
        np.save(data, np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8))
    model = tiny.save_timm(folder, "vit") if family == "timm" else None
    model = model or tiny.save_transformers(folder, family)
    encoder = load_encoder(str(model), weights="bf16")
    assert {weight.dtype for weight in encoder.module.parameters()} == {torch.bfloat16}
    plain = ExtractSettings(str(model), str(data), tmp_path / "a.h5", device="cpu")
    half = replace(plain, output=tmp_path / "b.h5", dtype="bf16", weights="bf16")
    rows = []
    for settings in (plain, half):
        extract(settings)
        with open_store(settings.output) as store:
            rows.append(store.view("final").read(0, len(store)))
            assert store.info.spec["numerics"]["weights"] == settings.weights
    assert rows[0].shape == rows[1].shape
    gap = np.abs(rows[1] - rows[0]).max() / np.sqrt((rows[0] ** 2).mean())
    assert 0 < gap < 0.2
    with pytest.raises(InputError, match="bf16"):
        extract(replace(half, dtype="fp32"))
