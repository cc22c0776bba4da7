"""One thread a worker, a cache of its own for every test, and which tests did not run."""

import importlib.util
import os
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

from tests.internals import mark_internals

# How long an example takes says how busy the machine is, nothing of what is tested.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

GATE_MARKERS = ("docs", "faults", "slow")
N_DESELECTED = pytest.StashKey[Counter[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_internals(items)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[N_DESELECTED] = Counter()
    if "PYTEST_XDIST_WORKER" in os.environ:  # which has no terminal, and yet is given its width
        os.environ.pop("COLUMNS", None)


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        item.config.stash[N_DESELECTED].update(m for m in GATE_MARKERS if m in item.keywords)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Give one thread to each worker to come: they share the cores."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Take over what a worker of xdist has deselected: all of them the same."""
    counts = getattr(node, "workeroutput", {}).get("n_deselected")
    if counts:
        node.config.stash[N_DESELECTED] = Counter(counts)  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Say in the last line what did not run."""
    config = session.config
    counts = config.stash[N_DESELECTED]
    if hasattr(config, "workeroutput"):
        config.workeroutput["n_deselected"] = dict(counts)
    result = yield
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if counts and reporter is not None:
        counted = ", ".join(f"{counts[name]} {name}" for name in GATE_MARKERS if counts[name])
        reporter.write_line(f"not run: {counted}; all tests: pytest -m ''")
    return result


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
