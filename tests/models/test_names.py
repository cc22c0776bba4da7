"""Names of models: every form, and one line for what has none."""

from importlib.metadata import version
from pathlib import Path

import pytest

from repalign.exceptions import InputError
from repalign.models.names import (
    FORM_OF_LOADER,
    FORMS,
    PAIRS,
    PRESETS,
    RECORDED_PACKAGES,
    ModelName,
    parse_model,
    resolve_name,
)
from repalign.zoo.shipped import shipped_path


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("hf:EleutherAI/pythia-160m", ModelName("hf", "EleutherAI/pythia-160m")),
        ("hf:gpt2@main", ModelName("hf", "gpt2", revision="main")),
        ("hf:a/b@refs/pr/1", ModelName("hf", "a/b", revision="refs/pr/1")),
        ("timm:vit_base_patch16_224.mae", ModelName("timm", "vit_base_patch16_224.mae")),
        ("torchvision:resnet18", ModelName("torchvision", "resnet18")),
    ],
)
def test_a_name_is_parsed_and_printed_back(text: str, spec: ModelName) -> None:
    assert parse_model(text) == spec
    assert str(spec) == text


def test_paths_are_recognised(tmp_path: Path) -> None:
    file = tmp_path / "w.pth"
    file.touch()
    assert parse_model(f"mae:{file}") == ModelName("mae", "", path=file)
    assert parse_model(f"timm:resnet18@{file}") == ModelName("timm", "resnet18", path=file)
    assert parse_model(str(tmp_path)) == ModelName("local", "", path=tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "model ''; .*timm:name.*, hf:org/name"),
        ("~nobody-of-that-name/x", "unknown model '~nobody"),
        ("x" * 5000, "unknown model 'xxx"),
        ("nowhere/at-all", "model 'nowhere/at-all'"),
        ("hf:", "unknown model 'hf:'"),
        ("hf:a/b/c", "repository"),
        ("hf:a/b@", "nothing after '@'"),
        ("hf:a/b@x y", "revision"),
        ("hf:a/b@../../x", r"'\.\.' in hf:a/b"),
        ("timm:Not-A-Name", "architecture"),
        ("mae:missing.pth", r"no weights .*missing\.pth"),
        ("timm:resnet18@missing.pth", r"no weights .*missing\.pth"),
    ],
)
def test_a_name_without_a_form_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_model(text)


def test_a_shipped_model_is_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert resolve_name("resnet-seed1") == (str(shipped_path("resnet-seed1")), None)
    with pytest.raises(InputError, match="mae-wide-seed1"):
        resolve_name("mae-wide-seed7")
    monkeypatch.chdir(tmp_path)
    Path("resnet-seed1").mkdir()  # what exists here comes first
    assert resolve_name("resnet-seed1") == ("resnet-seed1", None)


def test_presets_parse_and_say_what_is_certain() -> None:
    for preset in PRESETS.values():
        assert parse_model(preset.model).loader in FORM_OF_LOADER
        assert preset.certain
    for pair in PAIRS:
        assert {pair.source, pair.target} <= set(PRESETS)
        assert pair.inferred


def test_a_preset_is_replaced_and_a_typo_gets_near_matches() -> None:
    model, preset = resolve_name("pythia-160m-seed1")
    assert model == "hf:EleutherAI/pythia-160m-seed1"
    assert preset is PRESETS["pythia-160m-seed1"]
    assert resolve_name("hf:gpt2") == ("hf:gpt2", None)
    with pytest.raises(InputError, match=r"pythia-160m-seed1"):
        resolve_name("pythia160m-seed1")


@pytest.mark.parametrize("name", ["resnet18-a2.pth", "pythia-160m", "pythia-160m-seed1"])
def test_what_exists_comes_before_presets_of_that_or_a_similar_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    assert resolve_name(name) == (name, None)
    assert parse_model(name) == ModelName("local", "", path=Path(name))


@pytest.mark.parametrize("form", FORM_OF_LOADER.values())
def test_every_form_of_a_name_is_documented(form: str) -> None:
    assert form in FORMS
    assert f"| `{form}` |" in (Path(__file__).parents[2] / "docs" / "extract.md").read_text()


def test_versions_of_the_libraries_are_recorded() -> None:
    assert all(version(package) for package in RECORDED_PACKAGES)


@pytest.mark.parametrize("size", ["small", "base"])
def test_both_candidates_for_the_chexpert_pair_have_a_name(size: str) -> None:
    model, preset = resolve_name(f"chexpert-{size}-finetuned")
    assert model == f"hf:1aurent/vit_{size}_patch16_224.medmae_CXR_mae_ft_CheXpert"
    assert preset is not None
    assert (preset.group, preset.kind) == ("chexpert", "image")
