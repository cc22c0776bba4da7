"""The rooms of the package: sizes, cycles, who may enter which; tests lie beside what they test."""

import ast
import graphlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.test_architecture import MODULES, PACKAGE, ROOT, run_at_import

MAX_MODULES = 16
MAX_LINES = 50  # without the docstring
MAX_PARAMETERS = 7

# Where a limit is passed, and why. A limit may be raised by nobody; entries may only go.
LARGE_ROOMS: dict[str, str] = {}
LARGE_FUNCTIONS = {
    "store/foreign/separate_process.py:run_apart": "the limits of the process, all by name",
    "workflows/deconfound/run.py:deconfound": "the options are keywords beside its seven arguments",
    "workflows/compare/records.py:make_records": "a line for each column of the result",
}
# Rooms of the store: what reads knows nothing of what writes.
CLOSED = {
    "store/format": {"store.writing", "store.sources", "store.exchange"},
    "store/rows": {"store.reading", "store.writing", "store.sources", "store.exchange"},
    "store/reading": {"store.writing", "store.sources", "store.exchange", "store.foreign"},
    "store/joining": {"store.reading", "store.writing", "store.exchange", "store.foreign"},
    "store/writing": {"store.sources", "store.exchange", "store.foreign"},
}

# Rooms of tests alone.
OF_TESTS = {"faults": "drivers that damage, interrupt and misuse the whole"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {dotted(path) for path in MODULES}


def imported_modules(tree: ast.AST, *, known: set[str]) -> set[str]:
    """Modules of the package that are imported when this one is; those for types apart."""
    found = set()
    for node in run_at_import(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names} & known
            found |= whole or {node.module}
    return found & known


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, or nothing."""
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def n_lines(function: Function) -> int:
    lines = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    text = function.body[0]
    return lines - ((text.end_lineno or 0) - text.lineno + 1)


def n_parameters(function: Function) -> int:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    own = [each for each in named if each.arg not in {"self", "cls"}]
    return len(own) + bool(given.vararg) + bool(given.kwarg)


def is_declared(function: Function) -> bool:
    """A command whose options come from settings: each other parameter is one more option."""
    return any("standing_for" in ast.unparse(each) for each in function.decorator_list)


def size_violations(tree: ast.AST) -> list[str]:
    return [
        function.name
        for function in functions(tree)
        if not is_declared(function)
        and (n_lines(function) > MAX_LINES or n_parameters(function) > MAX_PARAMETERS)
    ]


def rooms() -> dict[str, list[Path]]:
    """Modules by room; `__init__` and `__main__` are doors, not furniture."""
    found: dict[str, list[Path]] = {}
    for path in MODULES:
        if not path.stem.startswith("__"):
            found.setdefault(path.parent.relative_to(PACKAGE).as_posix(), []).append(path)
    return found


def door_violations(path: Path, tree: ast.AST) -> list[str]:
    """Imports anywhere in the module from rooms that are closed to its room."""
    room = path.parent.relative_to(PACKAGE).as_posix()
    closed = tuple(f"repalign.{other}" for other in CLOSED.get(room, ()))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return [node.module for node in nodes if node.module and node.module.startswith(closed)]


def test_no_modules_import_each_other_in_a_ring() -> None:
    graph = {
        dotted(path): imported_modules(ast.parse(path.read_text()), known=NAMES) - {dotted(path)}
        for path in MODULES
    }
    assert sum(map(len, graph.values())) > len(graph)  # it did read imports
    assert cycle(graph) == []


def test_functions_are_short_and_take_few_parameters() -> None:
    large = {
        f"{path.relative_to(PACKAGE).as_posix()}:{name}"
        for path in MODULES
        for name in size_violations(ast.parse(path.read_text()))
    }
    assert large - LARGE_FUNCTIONS.keys() == set(), "split it, or give it one value of settings"
    assert LARGE_FUNCTIONS.keys() - large == set(), "no longer large: take it from the list"


def test_a_room_holds_a_dozen_modules_or_so() -> None:
    crowded = {room for room, modules in rooms().items() if len(modules) > MAX_MODULES}
    assert crowded == LARGE_ROOMS.keys()


def test_rooms_are_entered_from_one_side() -> None:
    assert all((PACKAGE / room).is_dir() for room in CLOSED)
    for path in MODULES:
        assert door_violations(path, ast.parse(path.read_text())) == [], path


def test_tests_lie_in_the_room_of_what_they_test() -> None:
    homes: dict[str, set[Path]] = {}
    for path in MODULES:
        homes.setdefault(path.stem, set()).add(path.parent.relative_to(PACKAGE))
    for path in (ROOT / "tests").rglob("test_*.py"):
        room = path.parent.relative_to(ROOT / "tests")
        assert (PACKAGE / room).is_dir() or room.as_posix() in OF_TESTS, path
        home = homes.get(path.stem.removeprefix("test_"))
        own = ".".join(("repalign", *room.parts))
        is_near = home is None or room in home or own in path.read_text(encoding="utf-8")
        assert is_near, f"{path} tests a module of {home}"


def test_the_ring_check_can_fail() -> None:
    known = {"repalign.a", "repalign.b"}
    code = "from typing import TYPE_CHECKING\nfrom repalign import a\n"
    assert imported_modules(ast.parse(code), known=known) == {"repalign.a"}
    late = "if TYPE_CHECKING:\n    import repalign.b\ndef f():\n    import repalign.b"
    assert imported_modules(ast.parse(code + late), known=known) == {"repalign.a"}
    assert set(cycle({"a": {"b"}, "b": {"a"}, "c": set()})) == {"a", "b"}


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n" + "    x = 1\n" * 50,
        "class A:\n    def f(self, a, b, c, d, e, f, g, h):\n        '''Doc.'''",
        "def f(a, b, c, d, *e, g, h, **i): ...",
    ],
)
def test_the_size_check_can_fail(code: str) -> None:
    assert size_violations(ast.parse(code)) == ["f"]
    assert size_violations(ast.parse("def f():\n    '''" + "Doc.\n" * 60 + "'''")) == []


def test_the_door_check_can_fail() -> None:
    tree = ast.parse("def f():\n    from repalign.store.writing.writer import StoreWriter")
    assert door_violations(PACKAGE / "store" / "reading" / "x.py", tree) != []
    assert door_violations(PACKAGE / "store" / "exchange" / "x.py", tree) == []
