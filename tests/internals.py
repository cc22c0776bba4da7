"""Tests of what is to be rewritten get the marker `internal`, by what they import."""

import inspect
from pathlib import Path
from types import CodeType, ModuleType

import pytest

TESTS = Path(__file__).parent
# Modules, and packages with all that is in them, that the layout to come has no more.
INTERNALS = (
    "repalign.arguments",
    "repalign.aliases",
    "repalign.cli.declared",
    "repalign.cli.engine",
    "repalign.cli.failures",
    "repalign.cli.requests",
    "repalign.experiments.papers.reports",
    "repalign.options",
    "repalign.process_state",
    "repalign.comparison.draws",
    "repalign.comparison.measured",
    "repalign.comparison.pair",
    "repalign.comparison.pairs",
    "repalign.comparison.scores",
    "repalign.comparison.space",
    "repalign.comparison.views",
    "repalign.conditions.keywords",
    "repalign.deconfounding.tasks",
    "repalign.deconfounding.units",
    "repalign.engine",
    "repalign.engine.machine",
    "repalign.spoken",
    "repalign.zoo.recipe",
    "repalign.zoo.task",
    "repalign.zoo.training",
)


def mark_internals(items: list[pytest.Item]) -> None:
    """Mark tests that use an internal themselves, by a helper or a fixture of their module."""
    for item in items:
        if isinstance(item, pytest.Function) and names_internal(item):
            item.add_marker(pytest.mark.internal)


def names_internal(item: pytest.Function) -> bool:
    """Return whether what a test reaches by names of its module, or is about, is internal."""
    scope = vars(item.module)
    subject = ".".join(item.path.with_suffix("").relative_to(TESTS).parts).replace("test_", "")
    names = {f"repalign.{subject}", *item.fixturenames, *names_in(item.function.__code__)}
    reached: set[str] = set()
    while names:
        name = names.pop()
        if is_internal(name):
            return True
        if name in reached or name not in scope:
            continue
        reached.add(name)
        value = unwrap(scope[name])
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
        if is_internal(home or ""):
            return True
        if home == item.module.__name__:
            members = vars(value).values() if isinstance(value, type) else (value,)
            for member in map(unwrap, members):
                names |= names_in(getattr(member, "__code__", None))
    return False


def names_in(code: CodeType | None) -> set[str]:
    """Return the names that code uses, and its texts: some name what is replaced."""
    if code is None:
        return set()
    texts = {constant for constant in code.co_consts if isinstance(constant, str)}
    inner = [names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return texts.union(code.co_names, *inner)


def unwrap(value: object) -> object:
    return inspect.unwrap(value) if callable(value) else value


def is_internal(name: str) -> bool:
    return name.startswith(INTERNALS)
