import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from safetensors.torch import load_file

from repalign.exceptions import InputError
from repalign.experiments.table_one_pairs import PAIRS, extractions
from repalign.models.load import load_encoder
from repalign.zoo.recipe import RECIPES
from repalign.zoo.shipped import WEIGHTS_FOLDER, shipped_models, shipped_names, shipped_path
from repalign.zoo.train import RECORD, make_task, read_training

FAMILIES = {
    ("language-model", "transformers"): "decoder",
    ("masked-autoencoder", "transformers"): "vit-mae",
    # without its decoder a masked autoencoder is a plain ViT
    ("masked-autoencoder", "timm"): "vit",
    ("classifier", "timm"): "cnn",
}


@pytest.mark.parametrize("name", shipped_names())
def test_the_record_is_of_these_files_and_of_the_recipe_of_today(name: str) -> None:
    folder = shipped_path(name)
    record = json.loads((folder / RECORD).read_text())
    files = {path.name for path in folder.iterdir()} - {RECORD}
    assert files == set(record["files"])
    for file, digest in record["files"].items():
        assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest, file
    assert record["recipe"] == asdict(RECIPES[record["recipe"]["name"]])
    assert name == f"{record['recipe']['name']}-seed{record['seed']}"


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_model_loads_as_any_other_would(name: str) -> None:
    recipe = RECIPES[read_training(shipped_path(name)).recipe]
    model = load_encoder(str(shipped_path(name)))
    assert model.family.name == FAMILIES[recipe.kind, recipe.format]
    assert model.origin.loader == recipe.format


def test_all_models_of_the_pairs_are_shipped_and_no_others() -> None:
    used = {extraction.model for extraction in extractions(None)}
    assert used == set(shipped_names())
    stores = {extraction.store for extraction in extractions(None)}
    assert {pair.source for pair in PAIRS} | {pair.target for pair in PAIRS} == stores


def test_the_package_stays_small() -> None:
    size = sum(path.stat().st_size for path in WEIGHTS_FOLDER.rglob("*"))
    assert size < 6_000_000


def test_trained_models_are_worth_comparing() -> None:
    for model in shipped_models():
        figures = model.figures
        if model.recipe == "gpt-neox":
            assert figures["held_out_loss"] < figures["unigram_loss"] - 2
        elif model.recipe == "resnet":
            assert figures["held_out_accuracy"] > 0.95
        elif model.recipe == "mae-untrained":
            assert figures["held_out_r2"] < 0
        else:
            assert figures["held_out_r2"] > 0.6


def test_the_figures_are_those_of_the_shipped_weights() -> None:
    for name in ("resnet-seed0", "mae-transformers-seed0"):
        trained = read_training(shipped_path(name))
        task = make_task(RECIPES[trained.recipe])
        if name.startswith("mae"):
            task.module = type(task.module).from_pretrained(shipped_path(name))
        else:
            task.module.load_state_dict(load_file(shipped_path(name) / "model.safetensors"))
        task.module.eval()
        # another machine sums in another order
        assert task.figures() == pytest.approx(trained.figures, abs=3e-3)


def test_an_unknown_model_is_refused_with_the_list() -> None:
    with pytest.raises(InputError, match=r"'gpt'.* gpt-neox-seed0"):
        shipped_path("gpt")


def test_a_folder_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"training\.json"):
        read_training(tmp_path)
