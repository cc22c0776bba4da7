"""Only files inside the directory of a checkpoint are loaded, and these are the hashed ones."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from repalign.exceptions import ModelError
from repalign.models.inputs.text import load_text_inputs
from repalign.models.load import choose_image_inputs, load_encoder


@pytest.fixture
def neox(tiny: ModuleType, tmp_path: Path) -> Path:
    return tiny.save_transformers(tmp_path / "neox", "gpt_neox")


def as_index(directory: Path, file: str, kind: str = "model.safetensors") -> None:
    """Replace the weights by an index that says where all of them are."""
    names = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": dict.fromkeys(names, file)}
    (directory / f"{kind}.index.json").write_text(json.dumps(index))


def put_weights(directory: Path, path: Path) -> None:
    """Save weights that would fit, somewhere else."""
    state = {k: v + 1 for k, v in load_file(directory / "model.safetensors").items()}
    if path.suffix == ".bin":
        torch.save(state, path)
    else:
        save_file(state, path, {"format": "pt"})


@pytest.mark.parametrize("kind", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize(
    "form", ["../other{}", "{root}/other{}", "sub/../../other{}", "./x{}", "x" * 300 + "{}"]
)
def test_an_index_names_no_files_elsewhere(
    neox: Path, tmp_path: Path, kind: str, form: str
) -> None:
    suffix = Path(kind).suffix
    put_weights(neox, tmp_path / f"other{suffix}")
    as_index(neox, form.format(suffix, root=tmp_path), kind)
    with pytest.raises(ModelError, match=r"shard .* outside"):
        load_encoder(str(neox))


@pytest.mark.parametrize("places", [None, [], {}, "x"])
def test_an_index_of_another_form_is_refused(neox: Path, places: Any) -> None:
    (neox / "model.safetensors").unlink()
    (neox / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ModelError, match="weight_map"):
        load_encoder(str(neox))


def test_a_shard_that_is_not_there_is_refused(neox: Path) -> None:
    as_index(neox, "c.safetensors")
    with pytest.raises(ModelError, match="lacks the shard c"):
        load_encoder(str(neox))


@pytest.mark.parametrize("field", ["transformers_weights", "fusion_config", "configuration_files"])
def test_a_config_names_no_other_files(neox: Path, field: str) -> None:
    put_weights(neox, neox / "other.safetensors")
    config = json.loads((neox / "config.json").read_text())
    (neox / "config.json").write_text(json.dumps({**config, field: "other.safetensors"}))
    with pytest.raises(ModelError, match=f"field '{field}'"):
        load_encoder(str(neox))


def test_what_lies_beside_the_weights_changes_nothing(neox: Path) -> None:
    before = load_encoder(str(neox))
    (neox / "config.4.0.0.json").write_text("{}")
    after = load_encoder(str(neox))
    assert after.origin.files == before.origin.files
    state = after.module.state_dict()
    assert all(torch.equal(state[k], v) for k, v in before.module.state_dict().items())
    (neox / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    with pytest.raises(ModelError, match="adapter"):
        load_encoder(str(neox))


@pytest.mark.parametrize(
    "file", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"]
)
def test_a_link_to_outside_is_refused_and_one_inside_is_not(
    neox: Path, tmp_path: Path, file: str
) -> None:
    (neox / "sub").mkdir()
    shutil.move(neox / file, neox / "sub" / "kept")
    (neox / file).symlink_to("sub/kept")
    load_text_inputs(load_encoder(str(neox)))
    shutil.move(neox / "sub" / "kept", tmp_path / "kept")
    (neox / file).unlink()
    (neox / file).symlink_to(tmp_path / "kept")
    with pytest.raises(ModelError, match=rf"{file} .*link to outside"):
        load_encoder(str(neox))


def test_a_snapshot_of_the_cache_is_links_into_its_blobs(neox: Path, tmp_path: Path) -> None:
    root = tmp_path / "models--org--tiny"
    snapshot, blobs = root / "snapshots" / ("0" * 40), root / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for path in neox.iterdir():
        shutil.copy(path, blobs / f"blob-of-{path.name}")
        (snapshot / path.name).symlink_to(Path("../../blobs") / f"blob-of-{path.name}")
    model = load_encoder(str(snapshot))
    weights = (neox / "model.safetensors").read_bytes()
    assert model.origin.files["model.safetensors"] == hashlib.sha256(weights).hexdigest()
    load_text_inputs(model)
    shutil.copy(neox / "model.safetensors", tmp_path / "elsewhere")
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="link to outside"):
        load_encoder(str(snapshot))


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_pipe_is_refused_and_not_waited_for(neox: Path, file: str) -> None:
    (neox / file).unlink()
    os.mkfifo(neox / file)
    with pytest.raises(ModelError, match=f"{file} .*regular"):
        load_encoder(str(neox))


def test_a_pipe_as_preprocessing_is_refused(tiny: ModuleType, tmp_path: Path) -> None:
    vit = tiny.save_transformers(tmp_path / "vit", "vit")
    model = load_encoder(str(vit))
    (vit / "preprocessor_config.json").unlink()
    os.mkfifo(vit / "preprocessor_config.json")
    for named in (None, str(vit)):
        with pytest.raises(ModelError, match=r"preprocessor_config.json"):
            choose_image_inputs(model, named)


def test_the_files_that_are_read_are_hashed(tiny: ModuleType, tmp_path: Path) -> None:
    directory = tiny.save_timm(tmp_path / "vit", "vit")
    files = load_encoder(str(directory)).origin.files
    assert files == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.iterdir())
    }


def test_a_directory_without_a_tokenizer_says_so(neox: Path) -> None:
    for path in neox.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(ModelError, match=r"no tokenizer .*--tok"):
        load_text_inputs(load_encoder(str(neox)))
