"""Order of the tests: fast ones first, so that a mistake shows early."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "slow" in item.keywords)
