"""Every example in a docstring runs and gives what it says."""

import doctest
import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

PACKAGE = Path(__file__).parents[1] / "repalign"
WITH_EXAMPLES = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>>" in path.read_text()]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


@pytest.mark.parametrize("name", [module_name(path) for path in WITH_EXAMPLES])
def test_the_examples_of_a_module(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    tested = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    assert tested.attempted > 0
    assert tested.failed == 0
