"""The documentation as a site: what `mkdocs build --strict` in the gate does not see."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import repalign

ROOT = Path(__file__).parents[1]


def load(name: str) -> ModuleType:
    """A module of the folder of pages, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


site_pages = load("site_pages")


def test_every_public_name_is_on_the_page_of_the_api() -> None:
    named = re.findall(r"^::: repalign\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.M)
    assert sorted(named) == [name for name in repalign.__all__ if name != "__version__"]


@pytest.mark.parametrize(
    ("target", "here", "address"),
    [
        ("docs/demo.png", "", "demo.png"),
        ("benchmarks/README.md", "", "benchmarks.md"),
        ("../README.md", "docs", "index.md"),
        ("../docs/families.md", "benchmarks", "families.md"),
        ("maths.md", "docs", "maths.md"),
        ("experiments/table1.png", "docs", "experiments/table1.png"),
        ("../LICENSE", "docs", "../LICENSE"),
    ],
)
def test_links_between_files_become_links_between_pages(target, here, address) -> None:
    assert site_pages.page_of(target, here) == address


def test_nothing_is_fetched_from_elsewhere() -> None:
    told = (ROOT / "mkdocs.yml").read_text() + (ROOT / "docs" / "site.css").read_text()
    assert "font: false" in told
    assert "//" not in told
