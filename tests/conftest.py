"""Order of the tests: fast ones first, so that a mistake shows early."""

import importlib.util
import uuid
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is, nothing of what is tested.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "slow" in item.keywords)


@pytest.fixture(scope="session")
def kept_work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the finished work of commands, away from the user's."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(autouse=True)
def own_cache(kept_work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test find what another one computed."""
    monkeypatch.setenv("REPALIGN_CACHE", str(kept_work / uuid.uuid4().hex))


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
