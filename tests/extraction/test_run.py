"""Extraction end to end: rows, index, spec, resuming, several processes, and refusals."""

import json
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

from repalign.data.read_options import ReadOptions
from repalign.exceptions import InputError, ModelError, RepalignError, StoreError
from repalign.extraction.run import extract
from repalign.extraction.settings import ExtractProgress, ExtractSettings
from repalign.store import open_store, verify_store


@pytest.fixture(scope="module")
def models(tiny: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    for family in ("gpt_neox", "bert", "vit_mae"):
        tiny.save_transformers(root / family, family)
    tiny.save_timm(root / "mae", "mae")
    return root


@pytest.fixture
def texts(tiny: ModuleType, tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    rng = np.random.default_rng(0)
    words = tiny.WORDS
    lines = [" ".join(rng.choice(words, size=rng.integers(1, 30))) for _ in range(60)]
    path.write_text("\n".join(lines) + "\n")
    return path


def run(model: Path, data: object, output: Path, **more: Any) -> Any:
    return extract(ExtractSettings(model=str(model), data=str(data), output=output, **more))


def plain_states(directory: Path, lines: list[str]) -> list[np.ndarray]:
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
    model = transformers.AutoModel.from_pretrained(directory, dtype=torch.float32).eval()
    with torch.no_grad():
        return [
            model(tokenizer(line, return_tensors="pt")["input_ids"]).last_hidden_state[0].numpy()
            for line in lines
        ]


@pytest.mark.parametrize("batch_size", [1, 64, 100_000])
def test_token_rows_are_in_data_order_with_their_identity(
    models: Path, texts: Path, tmp_path: Path, batch_size: int
) -> None:
    result = run(
        models / "gpt_neox", texts, tmp_path / "o.h5", batch_size=batch_size, shard_samples=16
    )
    states = plain_states(models / "gpt_neox", texts.read_text().splitlines())
    with open_store(result.path) as store:
        rows = store.view("final").read(0, len(store))
        index = store.index.slice(0, len(store))
    np.testing.assert_allclose(rows, np.concatenate(states), atol=1e-5, rtol=1e-5)
    counts = [len(state) for state in states]
    assert index.sample.tolist() == np.repeat(np.arange(60), counts).tolist()
    assert index.token.tolist() == [k for count in counts for k in range(count)]
    assert index.ids is not None
    assert index.ids[0] == b"1"
    assert result.n_rows == sum(counts) == result.speed.n_units
    verify_store(result.path)


def test_pooled_rows_of_several_layers_and_poolings(
    models: Path, texts: Path, tmp_path: Path
) -> None:
    result = run(
        models / "bert", texts, tmp_path / "o.h5", layers=("final", "-2"), pools=("mean", "cls")
    )
    states = plain_states(models / "bert", texts.read_text().splitlines())
    with open_store(result.path) as store:
        assert set(store.views) == {"final.mean", "final.cls", "block-2.mean", "block-2.cls"}
        mean = store.view("final.mean").read(0, 60)
        first = store.view("final.cls").read(0, 60)
        assert store.index.slice(0, 60).token.tolist() == [-1] * 60
    np.testing.assert_allclose(mean, [s.mean(0) for s in states], atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(first, [s[0] for s in states], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("tokens", "rule"), [("last", [-1]), ("stride:3", slice(None, None, 3))])
def test_chosen_tokens(models: Path, texts: Path, tmp_path: Path, tokens: str, rule: Any) -> None:
    result = run(models / "gpt_neox", texts, tmp_path / "o.h5", tokens=tokens)
    states = plain_states(models / "gpt_neox", texts.read_text().splitlines())
    with open_store(result.path) as store:
        rows = store.view("final").read(0, len(store))
    expected = np.concatenate([state[rule] for state in states])
    np.testing.assert_allclose(rows, expected, atol=1e-5, rtol=1e-5)


def test_sampled_tokens_are_the_same_for_every_model_and_subset(
    models: Path, texts: Path, tmp_path: Path
) -> None:
    chosen = {"tokens": "sample:2", "pools": ("token",), "seed": 5}
    indices = []
    for name, more in (("gpt_neox", {}), ("gpt_neox", {"limit": 20})):
        result = run(models / name, texts, tmp_path / f"{len(indices)}.h5", **chosen, **more)
        with open_store(result.path) as store:
            indices.append(store.index.slice(0, len(store)))
    short = indices[1]
    assert short.token.tolist() == indices[0].token[: len(short)].tolist()
    assert len(set(short.token.tolist())) > 5


def save_images(root: Path, count: int = 40) -> Path:
    rng = np.random.default_rng(1)
    root.mkdir()
    for number in range(count):
        size = (int(rng.integers(30, 60)), int(rng.integers(30, 60)), 3)
        pixels = rng.integers(0, 256, size, dtype=np.uint8)
        Image.fromarray(pixels).save(root / f"{number:03d}.png")
    return root


def test_images_of_both_libraries_under_one_preprocessing(models: Path, tmp_path: Path) -> None:
    images = save_images(tmp_path / "images")
    for name in ("mae", "vit_mae"):
        result = run(
            models / name, images, tmp_path / f"{name}.h5", preprocess="canonical32", batch_size=7
        )
        assert result.n_rows == 40
    with open_store(tmp_path / "mae.h5") as left, open_store(tmp_path / "vit_mae.h5") as right:
        one, other = left.index.slice(0, 40), right.index.slice(0, 40)
        np.testing.assert_equal(one.columns, other.columns)
        assert left.info.spec["preprocess"] == right.info.spec["preprocess"]


def test_image_rows_equal_a_plain_forward_pass(models: Path, tmp_path: Path) -> None:
    images = save_images(tmp_path / "images")
    run(models / "vit_mae", images, tmp_path / "o.h5", batch_size=7, shard_samples=16)
    processor = transformers.ViTImageProcessorPil.from_pretrained(models / "vit_mae")
    model = transformers.ViTMAEModel.from_pretrained(models / "vit_mae").eval()
    model.config.mask_ratio = 0.0
    pictures = [Image.open(path) for path in sorted(images.iterdir())]
    pixels = processor(pictures, return_tensors="pt")["pixel_values"]
    noise = torch.arange(16.0).expand(40, -1)
    with torch.no_grad():
        expected = model(pixels, noise=noise).last_hidden_state[:, 1:].mean(1).numpy()
    with open_store(tmp_path / "o.h5") as store:
        rows = store.view("final").read(0, 40)
        index = store.index.slice(0, 40)
    np.testing.assert_allclose(rows, expected, atol=1e-5, rtol=1e-5)
    assert index.ids is not None
    assert index.ids[39] == b"039.png"


def test_reruns_are_identical_and_a_complete_store_is_left_alone(
    models: Path, texts: Path, tmp_path: Path
) -> None:
    first = run(models / "gpt_neox", texts, tmp_path / "a.h5", shard_samples=16)
    second = run(models / "gpt_neox", texts, tmp_path / "b.h5", shard_samples=16)
    again = run(models / "gpt_neox", texts, tmp_path / "a.h5", shard_samples=16)
    assert first.fingerprint == second.fingerprint == again.fingerprint
    assert (first.rows_new, again.rows_new) == (first.n_rows, 0)
    over = run(models / "gpt_neox", texts, tmp_path / "a.h5", shard_samples=16, overwrite=True)
    assert over.rows_new == first.n_rows


def test_a_store_is_replaced_by_other_rows(models: Path, texts: Path, tmp_path: Path) -> None:
    for output in (tmp_path / "a.h5", tmp_path / "directory"):
        old = run(models / "gpt_neox", texts, output)
        new = run(models / "gpt_neox", texts, output, limit=20, overwrite=True)
        assert new.is_complete
        assert new.n_rows == new.rows_new < (old.n_rows or 0)
        assert new.fingerprint != old.fingerprint
        with open_store(output) as store:
            assert store.fingerprint == new.fingerprint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "directory", "texts.txt"]


def test_an_interrupted_replacement_keeps_the_old_store_and_goes_on(
    models: Path, texts: Path, tmp_path: Path
) -> None:
    old = run(models / "gpt_neox", texts, tmp_path / "a.h5", shard_samples=8, limit=50)
    settings = ExtractSettings(
        str(models / "gpt_neox"), str(texts), tmp_path / "a.h5", shard_samples=8, overwrite=True
    )

    def interrupt(progress: ExtractProgress) -> None:
        if progress.samples_done > 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(settings, on_progress=interrupt)
    with open_store(tmp_path / "a.h5") as store:
        assert store.fingerprint == old.fingerprint
    resumed = run(models / "gpt_neox", texts, tmp_path / "a.h5", shard_samples=8)
    whole = run(models / "gpt_neox", texts, tmp_path / "b.h5", shard_samples=8)
    assert resumed.fingerprint == whole.fingerprint != old.fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 9, "sample": 50}, r"spec.dataset.sample: null → 50; spec.seed: 0 → 9"),
        ({"max_length": 7}, "spec.tokenizer.max_length: 40 → 7"),
        ({"layers": ("-2",)}, "views"),
        ({"dtype": "bf16"}, 'spec.numerics.autocast: "fp32" → "bf16"'),
    ],
)
def test_changed_settings_are_refused_by_name(
    models: Path, texts: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    run(models / "gpt_neox", texts, tmp_path / "a.h5")
    with pytest.raises(StoreError, match=message):
        run(models / "gpt_neox", texts, tmp_path / "a.h5", **change)


def test_changed_weights_and_data_are_refused(models: Path, texts: Path, tmp_path: Path) -> None:
    copy = tmp_path / "neox"
    shutil.copytree(models / "gpt_neox", copy)
    run(copy, texts, tmp_path / "a.h5")
    spoil_weights(copy, 0.5)
    with pytest.raises(StoreError, match=r"spec.model.file_sha256.model.safetensors"):
        run(copy, texts, tmp_path / "a.h5")
    texts.write_text("other text\n" * 60)
    with pytest.raises(StoreError, match=r"spec.dataset.sha256"):
        run(models / "gpt_neox", texts, tmp_path / "a.h5")


def test_an_interrupted_extraction_goes_on(models: Path, texts: Path, tmp_path: Path) -> None:
    whole = run(models / "gpt_neox", texts, tmp_path / "whole.h5", shard_samples=8)
    settings = ExtractSettings(
        str(models / "gpt_neox"), str(texts), tmp_path / "cut.h5", shard_samples=8
    )

    def interrupt(progress: ExtractProgress) -> None:
        if progress.samples_done > 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(settings, on_progress=interrupt)
    assert not (tmp_path / "cut.h5").exists()
    resumed = extract(settings)
    assert 0 < resumed.rows_new < (whole.n_rows or 0)
    assert resumed.fingerprint == whole.fingerprint


def test_two_processes_write_the_store_of_one(
    models: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(models / "gpt_neox", texts, tmp_path / "whole.h5", shard_samples=8)
    results = []
    for rank in ("1", "0"):
        monkeypatch.setenv("SLURM_PROCID", rank)
        monkeypatch.setenv("SLURM_NTASKS", "2")
        results.append(run(models / "gpt_neox", texts, tmp_path / "two.h5", shard_samples=8))
    assert not results[0].is_complete
    assert results[0].path.name == "two.h5.parts"
    assert results[1].is_complete
    assert results[1].fingerprint == whole.fingerprint
    assert results[0].rows_new + results[1].rows_new == whole.n_rows
    with pytest.raises(InputError, match="--overwrite"):
        run(models / "gpt_neox", texts, tmp_path / "two.h5", overwrite=True)


def test_the_spec_says_everything_and_no_path(models: Path, texts: Path, tmp_path: Path) -> None:
    result = run(models / "gpt_neox", texts, tmp_path / "a.h5", layers=("-2",), limit=10)
    with open_store(result.path) as store:
        spec = store.info.spec
        environment = store.info.environment
    text = json.dumps([dict(spec), dict(environment)])
    assert str(tmp_path) not in text
    assert str(models) not in text
    assert os.uname().nodename not in text
    assert spec["view"]["views"]["block-2"]["module"] == "layers.1"
    assert spec["model"]["class"] == "GPTNeoXModel"
    assert len(spec["model"]["file_sha256"]["model.safetensors"]) == 64
    assert spec["dataset"]["limit"] == 10
    assert spec["numerics"]["autocast"] == "fp32"
    assert environment["transformers"] == transformers.__version__


def test_ids_can_be_left_out(models: Path, texts: Path, tmp_path: Path) -> None:
    result = run(models / "bert", texts, tmp_path / "a.h5", with_ids=False)
    with open_store(result.path) as store:
        assert "ids" not in store.info.index_columns


def test_progress_is_reported(models: Path, texts: Path, tmp_path: Path) -> None:
    seen: list[ExtractProgress] = []
    settings = ExtractSettings(str(models / "bert"), str(texts), tmp_path / "a.h5", batch_size=50)
    result = extract(settings, on_progress=seen.append)
    assert seen[-1].samples_done == seen[-1].samples_total == 60
    assert seen[-1].rows == 60
    assert (seen[-1].speed.n_units, seen[-1].speed.unit) == (result.speed.n_units, "tokens")
    assert [p.samples_done for p in seen] == sorted(p.samples_done for p in seen)


def test_lower_precision_is_recorded_and_warned_of(
    models: Path, texts: Path, tmp_path: Path
) -> None:
    result = run(models / "bert", texts, tmp_path / "a.h5", dtype="bf16")
    exact = run(models / "bert", texts, tmp_path / "b.h5")
    assert any("bf16 rows" in warning for warning in result.warnings)
    with open_store(result.path) as low, open_store(exact.path) as high:
        gap = np.abs(low.view("final").read(0, 60) - high.view("final").read(0, 60)).max()
    assert 1e-4 < gap < 0.5


def spoil_weights(directory: Path, value: float) -> None:
    path = directory / "model.safetensors"
    state = load_file(path)
    state["final_layer_norm.bias"] = torch.full((32,), value)
    save_file(state, path, metadata={"format": "pt"})


def test_non_finite_rows_name_sample_and_token(models: Path, texts: Path, tmp_path: Path) -> None:
    copy = tmp_path / "neox"
    shutil.copytree(models / "gpt_neox", copy)
    spoil_weights(copy, float("nan"))
    message = "non-finite .*final .*sample 1, token 0"
    with pytest.raises(ModelError, match=message):
        run(copy, texts, tmp_path / "a.h5")
    assert not (tmp_path / "a.h5").exists()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"tokens": "stride:2", "pools": ("mean",)}, InputError, "--tokens stride:2 "),
        ({"pools": ("token", "mean")}, InputError, "'token' .*other"),
        ({"pools": ("cls",)}, InputError, "pooling 'cls' .*decoder"),
        ({"layers": ("layers.9",)}, InputError, "no layer 'layers.9'"),
        (
            {"layers": ("rotary_emb",)},
            InputError,
            r"'rotary_emb' .*\(1, 3, \d\)",
        ),
        ({"device": "cuda:7"}, InputError, "device cuda:7 "),
        ({"device": "tpu"}, InputError, "unknown device 'tpu'"),
        ({"data": "nowhere"}, InputError, "no data at nowhere"),
        ({"model": "nowhere"}, InputError, "unknown model 'nowhere'"),
        ({"max_length": 4000}, InputError, "--max-length 4000, .*40 positions"),
        ({"output": Path("/proc/x.h5")}, (RepalignError, OSError), "/proc/x.h5"),
    ],
)
def test_wrong_settings_get_one_line(
    models: Path, texts: Path, tmp_path: Path, change: dict[str, Any], error: Any, message: str
) -> None:
    settings = {
        "model": str(models / "gpt_neox"),
        "data": str(texts),
        "output": tmp_path / "a.h5",
        **change,
    }
    with pytest.raises(error, match=message) as caught:
        extract(ExtractSettings(**settings))
    assert "\n" not in str(caught.value)


def test_image_layers_of_different_sizes_share_no_token_rows(
    tiny: ModuleType, tmp_path: Path
) -> None:
    resnet = tiny.save_timm(tmp_path / "resnet", "resnet")
    settings = {"pools": ("token",), "layers": ("-1", "-2")}
    with pytest.raises(InputError, match="numbers of positions"):
        run(resnet, "digits", tmp_path / "a.h5", **settings)


def test_text_without_tokens_is_named(tiny: ModuleType, models: Path, tmp_path: Path) -> None:
    bare = tmp_path / "neox"
    shutil.copytree(models / "gpt_neox", bare)
    pipeline = json.loads((bare / "tokenizer.json").read_text())
    pipeline["normalizer"] = {"type": "Replace", "pattern": {"String": "#"}, "content": ""}
    (bare / "tokenizer.json").write_text(json.dumps(pipeline))
    (tmp_path / "t.txt").write_text("the cat\n###\n")
    with pytest.raises(InputError, match=r"sample 2 .*no tokens"):
        run(bare, tmp_path / "t.txt", tmp_path / "a.h5")


def test_a_damaged_image_stops_the_run_and_the_rest_is_kept(models: Path, tmp_path: Path) -> None:
    images = save_images(tmp_path / "images")
    (images / "030.png").write_bytes(b"no image")
    settings = {"shard_samples": 8, "batch_size": 4}
    with pytest.raises(InputError, match=r"030.png .*known format"):
        run(models / "mae", images, tmp_path / "a.h5", **settings)
    shards = list((tmp_path / "a.h5.parts").glob("part-*.h5"))
    assert 1 <= len(shards) <= 3


def test_columns_of_tables_reach_the_reader(models: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who,said\nA,the cat\nB,a bird\n")
    options = ReadOptions(column="said", id_column="who")
    result = run(models / "bert", tmp_path / "t.csv", tmp_path / "a.h5", read=options)
    with open_store(result.path) as store:
        ids = store.index.slice(0, 2).ids
    assert ids is not None
    assert ids.tolist() == [b"A", b"B"]


def test_texts_that_are_cut_are_counted_and_said(
    models: Path, tiny: ModuleType, tmp_path: Path
) -> None:
    data = tmp_path / "texts.txt"
    data.write_text("\n".join(tiny.TEXTS) + "\n")
    lengths = [len(text.split()) + 2 for text in tiny.TEXTS]  # with [CLS] and [SEP]
    longer = sum(length > 8 for length in lengths)
    result = run(models / "bert", data, tmp_path / "a.h5", max_length=8, batch_size=16)
    assert 0 < longer < len(lengths)
    assert result.n_cut == longer
    assert any(f"{longer} of 12 " in w for w in result.warnings)
    assert run(models / "bert", data, tmp_path / "b.h5").n_cut == 0
