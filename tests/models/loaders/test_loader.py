"""Every loader of the list is whole: it is found, told of, and says what it does not do."""

from importlib.metadata import version
from pathlib import Path

import pytest

from repalign.exceptions import InputError
from repalign.models.loaders.loader import Loader, claiming_loader, loader_of
from repalign.models.naming.loaders import FORMS, LOADERS, recorded_packages
from repalign.models.naming.spec import ModelSpec

DOCS = Path(__file__).parents[3] / "docs" / "extract.md"


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_is_found_by_its_name_and_told_of_everywhere(name: str) -> None:
    entry = LOADERS[name]
    assert isinstance(loader_of(name), Loader)
    if entry.form:
        assert entry.form.startswith(f"{name}:") or entry.runs_code
        assert entry.form in FORMS
        assert f"| `{entry.form}` |" in DOCS.read_text()
    else:
        assert entry.recorded in DOCS.read_text()
    for package in entry.packages:
        assert package in recorded_packages()
        assert version(package)


def test_what_a_loader_does_not_do_it_refuses(tmp_path: Path) -> None:
    loader, spec = Loader(), ModelSpec("x", "name")
    assert not loader.claims(tmp_path)
    for refused in (
        lambda: loader.load(spec),
        lambda: loader.load_path(tmp_path, "name"),
        lambda: loader.named_preprocess(spec),
        lambda: loader.preprocess_in(tmp_path),
    ):
        with pytest.raises(InputError):
            refused()


def test_a_directory_is_offered_in_the_order_of_the_list(tmp_path: Path) -> None:
    assert claiming_loader(tmp_path) is loader_of("hf")
    (tmp_path / "config.json").write_text('{"architecture": "resnet18"}')
    assert claiming_loader(tmp_path) is loader_of("timm")
    (tmp_path / "config.json").write_text('{"architecture": "resnet18", "model_type": "vit"}')
    assert claiming_loader(tmp_path) is loader_of("hf")
    assert claiming_loader(tmp_path / "nothing.pth") is None
