"""How much of the package a call runs, how deep, and how large the package is.

    OMP_NUM_THREADS=1 python benchmarks/structure.py

Counts are of code of ours: functions (comprehensions and lambdas apart) and the modules they are
in. What runs while modules are imported does not count.
"""

import ast
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
RESNET = "resnet-seed0"
PACKAGE = HERE.parent / "repalign"
# Folders and modules of the compare path above core, before and after they are rebuilt.
COMPARE = ("comparison", "engine")


class Trace:
    """Functions of ours that run inside the block, and the frames of ours above an SVD."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.depths: list[tuple[int, str, list[str]]] = []

    def __enter__(self) -> "Trace":
        sys.setprofile(self.see)
        threading.setprofile(self.see)
        return self

    def __exit__(self, *failure: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(str(PACKAGE)):
            if is_function(code) and not is_importing(frame):
                self.codes.add(code)
        elif code.co_name == "svd" and "linalg" in code.co_filename:
            names = stack_of_ours(frame)
            self.depths.append((len(names), kind_of(names), names))

    def counts(self) -> tuple[int, int]:
        """Return the functions that ran, and the modules they are in."""
        return len(self.codes), len({code.co_filename for code in self.codes})


def kind_of(names: list[str]) -> str:
    """Return what a decomposition is made for, by the functions above it."""
    for kind, words in (
        ("in a null", ("null", "orders")),
        ("on a half-sample", ("halves", "half_s")),
    ):
        if any(word in name for name in names for word in words):
            return kind
    return "observed"


def is_function(code: CodeType) -> bool:
    return code.co_flags & 0x2 > 0 and not code.co_name.startswith("<")


def is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and "repalign" in frame.f_code.co_filename:
            return frame.f_code.co_filename.startswith(str(PACKAGE))
        frame = frame.f_back
    return False


def stack_of_ours(frame: FrameType | None) -> list[str]:
    """Return the functions of ours above a call, from the outermost on."""
    names: list[str] = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(str(PACKAGE)) and is_function(code):
            names.append(f"{Path(code.co_filename).stem}.{code.co_qualname}")
        frame = frame.f_back
    return names[::-1]


def default_compare() -> Callable[[], Any]:
    import repalign

    rng = np.random.default_rng(0)
    x = rng.laplace(size=(200, 3))
    y = x @ rng.normal(size=(3, 3)) + 0.1 * rng.normal(size=x.shape)
    return lambda: repalign.compare(x, y)


def shipped_extract(folder: str) -> Callable[[], Any]:
    import repalign
    from repalign.extraction.settings import ExtractSettings
    from repalign.zoo.shipped import shipped_path

    settings = ExtractSettings(
        str(shipped_path(RESNET)), "builtin:digits", Path(folder) / "a.h5", limit=64, device="cpu"
    )
    return lambda: repalign.extract(settings)


def classes() -> int:
    """Return the classes of the compare path, by its packages."""
    files = [path for name in COMPARE for path in (PACKAGE / name).rglob("*.py")]
    trees = (ast.parse(path.read_text()) for path in files)
    return sum(isinstance(node, ast.ClassDef) for tree in trees for node in ast.walk(tree))


def main() -> None:
    compare = default_compare()
    with Trace() as trace:
        compare()
    print("| | |\n|---|---|")
    print("| functions, modules of a default compare | {}, {} |".format(*trace.counts()))
    deepest: dict[str, tuple[int, list[str]]] = {}
    for depth, kind, names in trace.depths:
        if "orthogonal" in names[-1] and depth > deepest.get(kind, (0, []))[0]:
            deepest[kind] = depth, names
    for kind, (depth, _) in sorted(deepest.items()):
        print(f"| frames from compare to the SVD, {kind} | {depth} |")
    print(f"| classes of the compare path | {classes()} |")
    try:
        with tempfile.TemporaryDirectory() as folder:
            extract = shipped_extract(folder)
            with Trace() as extraction:
                extract()
        counts = extraction.counts()
        print("| functions, modules of extract of the shipped ResNet | {}, {} |".format(*counts))
    except Exception as failure:  # noqa: BLE001  a package in the middle of a rebuild
        print(f"| functions, modules of extract of the shipped ResNet | {failure} |")
    files = list(PACKAGE.rglob("*.py"))
    n_lines = sum(len(path.read_text().splitlines()) for path in files)
    print(f"| lines, modules of the package | {n_lines}, {len(files)} |")
    for kind, (_, names) in sorted(deepest.items()):
        print(f"\n{kind}: " + " → ".join(names))


if __name__ == "__main__":
    main()
