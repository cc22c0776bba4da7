"""Order of the tests: fast ones first, so that a mistake shows early."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "slow" in item.keywords)


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    """Makers of tiny checkpoints, loaded only where a test asks for them."""
    path = Path(__file__).with_name("tiny_models.py")
    spec = importlib.util.spec_from_file_location("tiny_models", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
