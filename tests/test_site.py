"""The documentation as a site: what `mkdocs build --strict` in the gate does not see."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import griffe
import nbformat
import pytest

import repalign

pytestmark = pytest.mark.docs

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
run_tour = load("run_tour")


def test_every_public_name_is_on_the_page_of_the_api() -> None:
    named = re.findall(r"^::: repalign\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.M)
    assert sorted(named) == [name for name in repalign.__all__ if name != "__version__"]


def test_the_api_shows_the_defaults_of_options() -> None:
    """They are declared by calls, which would stand there instead."""
    shown = griffe.load(
        "repalign.comparison.settings",
        search_paths=[ROOT],
        extensions=griffe.load_extensions(ROOT / "docs" / "docstrings.py"),
    )
    settings = shown["CompareSettings"]
    assert str(settings["held_out"].value) == "0.2"
    assert str(settings["n_null"].value) == "None"
    assert str(settings["width_policy"].value) == "'zero-pad'"
    assert not any("option(" in str(each.value) for each in settings.attributes.values())


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


def test_the_notebook_runs_and_gives_what_it_shows(tmp_path: Path) -> None:
    kept = nbformat.read(run_tour.NOTEBOOK, as_version=4)
    assert run_tour.NOTEBOOK.stat().st_size < 500_000
    shown = run_tour.kinds(kept)
    assert ["image/png+text/plain"] in shown
    assert ["text/html+text/plain"] in shown
    fresh = run_tour.run(nbformat.read(run_tour.NOTEBOOK, as_version=4), tmp_path)
    assert run_tour.kinds(fresh) == shown


def test_the_code_of_the_notebook_fits_the_page() -> None:
    cells = nbformat.read(run_tour.NOTEBOOK, as_version=4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    assert [line for line in code.splitlines() if len(line) > 76] == []


def test_the_notebook_becomes_a_page_with_its_pictures() -> None:
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "text"]},
            {
                "cell_type": "code",
                "source": ["plot()"],
                "outputs": [
                    {"output_type": "stream", "name": "stdout", "text": ["a < b\n"]},
                    {"data": {"text/html": ["<p>x</p>\n", "\n", "y"], "text/plain": ["x"]}},
                    {"data": {"image/png": "AAAA", "text/plain": ["<Figure>"]}},
                ],
            },
        ]
    }
    page, pictures = site_pages.notebook_page(notebook, "tour")
    assert page.startswith("# Title\ntext\n\n```python\nplot()\n```\n")
    assert '<pre class="output">a &lt; b</pre>' in page
    assert '<div class="output"><p>x</p>\ny</div>' in page
    assert "](tour-1.png)" in page
    assert pictures == {"tour-1.png": b"\0\0\0"}
