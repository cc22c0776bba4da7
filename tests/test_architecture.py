"""The layers of the package, read from the syntax tree: imports, sizes, printing, dependencies."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "repalign"

# What each part of the package may import of the others. The base is free.
MIDDLE = {"core", "store", "models", "data"}
ALLOWED = {
    "aliases": set[str](),
    "arguments": {"exceptions"},
    "exceptions": {"printable"},
    "files": {"exceptions"},
    "options": {"arguments", "exceptions"},
    "printable": set[str](),
    "rows": {"aliases"},
    "core": set[str](),
    "store": set[str](),
    "models": set[str](),
    "data": set[str](),
    "workflows": MIDDLE,
    "zoo": MIDDLE | {"workflows"},
    "simulation": {"core"},
    "experiments": MIDDLE | {"workflows", "zoo", "simulation"},
    "cli": MIDDLE | {"workflows", "zoo", "experiments"},
    "__init__": MIDDLE | {"workflows"},
    "__main__": {"cli"},
}
BASE = {"aliases", "arguments", "exceptions", "files", "options", "printable", "rows"}

# Third-party packages that have one owner.
OWNERS = {
    "h5py": {"store"},
    "hdf5plugin": {"store"},
    "anndata": {"store"},
    "transformers": {"models", "zoo"},
    "timm": {"models", "zoo"},
    "tokenizers": {"models", "zoo"},
    "ray": {"workflows"},
    "typer": {"cli"},
    "rich": {"cli"},
}
# Never at the top of a module: `import repalign` and `repalign --help` must stay light.
HEAVY = {
    "torch",
    "torchvision",
    "transformers",
    "timm",
    "datasets",
    "lightgbm",
    "matplotlib",
    "ray",
}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc", "base"}
IMPORT_NAMES = {"scikit-learn": "sklearn", "pillow": "PIL"}
MAX_LINES = 300

MODULES = sorted(PACKAGE.rglob("*.py"))


def module_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def part_of(path: Path) -> str:
    """`core` for repalign/core/maps/affine.py, `aliases` for repalign/aliases.py."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from repalign import store` imports repalign.store
            if node.module == "repalign":
                yield from (f"repalign.{alias.name}" for alias in node.names)
            else:
                yield node.module


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported: not in functions, not for types."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.stmt) and is_type_checking(child):
            continue
        yield child
        yield from run_at_import(child)


def layer_violations(path: Path, tree: ast.AST) -> list[str]:
    part = part_of(path)
    own = {part} | BASE | ALLOWED[part]
    wrong = []
    for name in imports(tree):
        if name.split(".")[0] != "repalign" or name == "repalign":
            continue
        target = name.split(".")[1]
        if target in own or target == "__version__":
            continue
        wrong.append(f"{part} imports {name}")
    return wrong


def owner_violations(path: Path, tree: ast.AST) -> list[str]:
    part = part_of(path)
    tops = {name.split(".")[0] for name in imports(tree)}
    return [
        f"{part} imports {top}" for top in sorted(tops & OWNERS.keys()) if part not in OWNERS[top]
    ]


def heavy_violations(tree: ast.Module) -> list[str]:
    statements = [
        node for node in run_at_import(tree) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    tops = {name.split(".")[0] for node in statements for name in imports(node)}
    return sorted(tops & HEAVY)


def print_violations(tree: ast.AST) -> list[str]:
    return [
        f"line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def declared_dependencies() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = list(project["dependencies"])
    for name, extra in project["optional-dependencies"].items():
        if name != "test":
            lines += extra
    names = [re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0] for line in lines]
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names}


@pytest.fixture(params=MODULES, ids=module_id)
def module(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_module_imports_only_the_layers_below_it(module: Path) -> None:
    assert layer_violations(module, ast.parse(module.read_text())) == []


def test_module_leaves_owned_libraries_to_their_owner(module: Path) -> None:
    assert owner_violations(module, ast.parse(module.read_text())) == []


def test_module_imports_heavy_libraries_only_inside_functions(module: Path) -> None:
    if part_of(module) in {"core", "models"} and module.name != "__init__.py":
        return  # loaded only by the workflow that needs them; test_light_import.py holds the line
    assert heavy_violations(ast.parse(module.read_text())) == []


def test_module_imports_only_declared_dependencies(module: Path) -> None:
    tops = {name.split(".")[0] for name in imports(ast.parse(module.read_text()))}
    undeclared = tops - declared_dependencies() - set(sys.stdlib_module_names) - {"repalign"}
    assert undeclared == set()


def test_module_prints_only_in_the_command_line(module: Path) -> None:
    if part_of(module) != "cli":
        assert print_violations(ast.parse(module.read_text())) == []


def test_module_is_small_and_named_after_its_idea(module: Path) -> None:
    lines = module.read_text().count("\n")
    stem = module.stem
    assert lines <= MAX_LINES, f"{lines} lines: split it by ideas"
    assert stem not in FORBIDDEN_NAMES
    assert stem not in sys.stdlib_module_names - {"__init__", "__main__"}


@pytest.mark.parametrize(
    ("check", "path", "code"),
    [
        (layer_violations, "core/x.py", "from repalign.store import open_store"),
        (layer_violations, "store/x.py", "def f():\n    from repalign import workflows"),
        (layer_violations, "workflows/x.py", "import repalign.cli.app"),
        (owner_violations, "workflows/x.py", "import h5py"),
        (owner_violations, "core/x.py", "def f():\n    from rich.table import Table"),
        (owner_violations, "data/x.py", "import transformers.models"),
    ],
)
def test_the_checks_can_fail(check, path: str, code: str) -> None:
    assert check(PACKAGE / path, ast.parse(code)) != []


def test_the_heavy_and_print_checks_can_fail() -> None:
    assert heavy_violations(ast.parse("class A:\n    import torch")) == ["torch"]
    assert heavy_violations(ast.parse("def f():\n    import torch")) == []
    assert heavy_violations(ast.parse("class A:\n    def f(self):\n        import torch")) == []
    assert print_violations(ast.parse("def f():\n    print(1)")) == ["line 2"]
