"""The commands extract and models: what they print, and one line for what goes wrong."""

import csv
import io
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
import typer
from typer.testing import CliRunner, Result

from repalign.cli.app import RepalignGroup, root
from repalign.cli.commands import extract, models
from repalign.cli.commands.extract_progress import describe_rate
from repalign.extraction.settings import ExtractProgress, Speed
from repalign.models.names import PAIRS
from repalign.store import open_store


@pytest.fixture(scope="module")
def checkpoints(tiny: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    tiny.save_transformers(folder / "neox", "gpt_neox")
    tiny.save_timm(folder / "vit", "vit")
    return folder


def invoke(*words: object) -> Result:
    app = typer.Typer(cls=RepalignGroup, pretty_exceptions_enable=False)
    app.callback()(root)
    app.command("extract")(extract.extract)
    app.add_typer(models.app, name="models")
    return CliRunner().invoke(app, [str(word) for word in words])


def test_extract_prints_its_store_as_csv_and_talks_on_stderr(
    checkpoints: Path, tmp_path: Path
) -> None:
    command = (
        "extract", checkpoints / "neox", "--data", "builtin:shakespeare", "--limit", 5,
        "--layer", "final", "--layer", -2, "-o", tmp_path / "a.h5",
    )  # fmt: skip
    ran = invoke(*command)
    assert ran.exit_code == 0, ran.output
    (record,) = csv.DictReader(io.StringIO(ran.stdout))
    assert record["store"] == str(tmp_path / "a.h5")
    assert record["complete"] == "true"
    assert record["views"] == "final:32 block-2:32"
    assert record["rows"] == record["new_rows"]
    assert re.search(r"a\.h5.* \d+ rows.* [\d.]+ s\b.*[\d,]+ tokens/s", ran.stderr)
    assert "5 samples" in ran.stderr
    again = invoke(*command, "--format", "json")
    (same,) = json.loads(again.stdout)
    assert same["fingerprint"] == record["fingerprint"]
    assert same["new_rows"] == 0
    assert "complete" in again.stderr


def test_options_reach_the_extraction(checkpoints: Path, tmp_path: Path) -> None:
    ran = invoke(
        "extract", checkpoints / "vit", "--data", "digits", "--sample", 40, "--seed", 3,
        "--preprocess", "canonical32", "--pool", "cls", "--pool", "patch-mean", "--workers", 1,
        "--batch-size", 7, "--shard-samples", 16, "--store-dtype", "float16", "--no-ids",
        "--device", "cpu", "-o", tmp_path / "a.h5",
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    # of 40 images, whatever the number of their patches
    seconds, rate = re.findall(r"40 rows in ([\d.]+) s \(([\d,.]+) images/s\)", ran.stderr)[0]
    assert float(rate.replace(",", "")) < 41 / max(float(seconds) - 0.06, 0.01)
    with open_store(tmp_path / "a.h5") as store:
        assert store.info.spec["seed"] == 3
        assert store.info.spec["dataset"]["sample"] == 40
        assert store.info.spec["preprocess"]["name"] == "canonical32"
        assert [view.dtype for view in store.info.views] == ["float16", "float16"]
        assert "ids" not in store.info.index_columns
        assert store.info.licence == "apache-2.0"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere", "--data", "digits"], "'nowhere'"),
        (["pythia-160m-sed1", "--data", "digits"], "pythia-160m-seed1"),
        (["{neox}", "--data", "gone.txt"], "gone.txt"),
        (["{neox}", "--data", "digits"], "image data"),
        (["{neox}", "--data", "shakespeare", "--layer", "layer.1"], "layers.1"),
        (["{neox}", "--data", "shakespeare", "--device", "cuda:9"], "cuda:9"),
        (["{neox}", "--data", "shakespeare", "--tokens", "some"], "'some'"),
        (["hf:no/where", "--data", "shakespeare", "--offline"], "no/where"),
    ],
)
def test_failures_are_one_line_and_exit_1(
    checkpoints: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    words = [word.format(neox=checkpoints / "neox") for word in words]
    ran = invoke("extract", *words, "-o", tmp_path / "a.h5")
    assert ran.exit_code == 1
    assert ran.stdout == ""
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert not (tmp_path / "a.h5").exists()


def test_a_missing_option_is_wrong_usage(checkpoints: Path) -> None:
    assert invoke("extract", checkpoints / "neox").exit_code == 2


def test_presets_are_listed_with_what_is_certain_and_inferred() -> None:
    ran = invoke("models", "--format", "json")
    presets = {record["preset"]: record for record in json.loads(ran.stdout)}
    assert presets["pythia-160m-seed1"]["model"] == "hf:EleutherAI/pythia-160m-seed1"
    assert presets["mae-original"]["inferred"]
    assert presets["mae-timm"]["pair"] == "mae"
    for pair in PAIRS:
        assert pair.certain in ran.stderr
        assert pair.inferred in ran.stderr


def test_presets_are_found_by_kind_and_name() -> None:
    def names(*words: str) -> list[str]:
        ran = invoke("models", *words, "--format", "csv")
        return [record["preset"] for record in csv.DictReader(io.StringIO(ran.stdout))]

    images = names("--kind", "image")
    assert set(names("--kind", "text")) | set(images) == set(names())
    assert {"mae-timm", "chexpert-small", "resnet18-a1"} <= set(images)
    assert names("--search", "160M-weight") == [f"pythia-160m-weight-seed{k}" for k in (1, 2, 3)]
    ran = invoke("models", "--kind", "image", "--search", "pythia")
    assert ran.exit_code == 1
    assert "'pythia'" in ran.stderr
    assert invoke("models", "--kind", "smell").exit_code == 2


def test_a_table_of_presets_has_a_line_for_each_group() -> None:
    ran = invoke("models", "--format", "table")
    assert "multiberts-seed0 … seed24 (25)" in ran.stdout
    assert "resnet18-a1, resnet18-a2, resnet18-torchvision" in ran.stdout
    assert "Apache-2.0, BSD-3-Clause" in ran.stdout
    assert len(ran.stdout.splitlines()) < 20
    found = invoke("models", "--format", "table", "--search", "410m")
    assert "hf:EleutherAI/pythia-410m-seed7" in found.stdout
    assert "pythia-410m-seed1 … seed9 (9)" in found.stderr
    assert "pair" not in found.stderr


def test_a_model_is_shown_with_layers_and_views(checkpoints: Path) -> None:
    ran = invoke("models", "show", checkpoints / "neox", "--layer", "pre-norm")
    lines = list(csv.DictReader(io.StringIO(ran.stdout)))
    assert [line["layer"] for line in lines] == ["0", "1", "2", "3", "final"]
    assert lines[-1]["module"] == "final_layer_norm"
    assert {line["columns"] for line in lines} == {"32"}
    assert re.search(r"pre-norm.* final_layer_norm \(input\).* token", ran.stderr)
    assert "tokenizer" in ran.stderr
    shown = json.loads(invoke("models", "show", checkpoints / "vit", "--format", "json").stdout)
    assert shown["layers"][0]["positions"] == "17"
    assert shown["prepared"].startswith("vit: resize 35, crop (32, 32), bicubic")
    assert shown["views"] == [["final", "norm", "patch-mean"]]
    assert "blocks.0.attn.qkv" in shown["modules"]


def test_the_bar_says_rows_and_speed() -> None:
    progress = ExtractProgress(10, 20, rows=1234, speed=Speed(5000, "tokens", 2.0))
    assert describe_rate(progress) == "1,234 rows, 2,500 tokens/s"
    assert str(Speed(5, "images", 2.0)) == "2.5 images/s"
    assert str(Speed(0, "sounds", 0.0)) == "0 sounds/s"


def test_a_list_of_models_gives_a_store_of_each(checkpoints: Path, tmp_path: Path) -> None:
    listed = tmp_path / "models.txt"
    listed.write_text(f"first={checkpoints / 'neox'}\nsecond={checkpoints / 'neox'}\n")
    options = ("--data", "builtin:shakespeare", "--limit", 5, "-o", tmp_path / "stores")
    ran = invoke("extract", "--models", listed, *options)
    assert ran.exit_code == 0, ran.output
    stores = [each["store"] for each in csv.DictReader(io.StringIO(ran.stdout))]
    assert stores == [str(tmp_path / "stores" / f"{name}.h5") for name in ("first", "second")]
    listed.write_text(f"{tmp_path / 'nothing'}\nfirst={checkpoints / 'neox'}\n")
    failed = invoke("extract", "--models", listed, *options)
    assert failed.exit_code == 1
    assert "first.h5" in failed.stdout
    assert "1 of 2 models" in failed.stderr
    for words in ((), (checkpoints / "neox", "--models", listed)):
        assert "--models" in invoke("extract", *words, *options).stderr
    local = invoke("extract", checkpoints / "neox", *options, "--ray-address", "auto")
    assert "--engine ray" in local.stderr


def test_the_bar_of_many_tells_the_slowest_workers() -> None:
    workers = tuple((f"node/{n}", Speed(100 * n, "tokens", 1.0)) for n in range(1, 7))
    told = describe_rate(ExtractProgress(3, 9, 30, Speed(600, "tokens", 1.0), workers, (1, 4)))
    assert told.startswith("1 of 4 stores, 30 rows, 600 tokens/s (node/1 100 tokens/s, ")
    assert told.endswith("node/4 400 tokens/s and 2 faster)")
