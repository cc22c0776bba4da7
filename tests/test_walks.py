"""How far it is from a command to its work: a walk that grows longer is hard to follow."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import repalign
from repalign.cli.app import app

# A decomposition, and bytes from disk.
SVD, DISK = "svd", "_stored_into"
# Functions of the package from a command's own to that place, both counted. May only fall.
LONGEST = {
    ("compare", SVD): 14,
    ("compare", DISK): 17,
    ("disentangle", SVD): 13,
    ("disentangle", DISK): 11,
}


def walk_to(place: str, command: str, run: Callable[[], Any]) -> list[str]:
    """The shortest way from a command's function to a call of that name, function by function."""
    ways: list[list[str]] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == place:
            ways.append(way_of(frame, command))

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return min((way for way in ways if way), key=len, default=[])


def way_of(frame: FrameType | None, command: str) -> list[str]:
    """Functions of the package on the stack, from the command on.

    Comprehensions do not count, nor does the check of arguments, which passes a call on.
    """
    found: list[str] = []
    while frame is not None:
        name, module = frame.f_code.co_name, frame.f_globals.get("__name__", "")
        is_passed_on = module == "repalign.arguments"
        if module.startswith("repalign") and not (is_passed_on or name.startswith("<")):
            found.append(f"{module}.{frame.f_code.co_qualname}")
        if module == f"repalign.cli.commands.{command}" and name == command:
            return found[::-1]
        frame = frame.f_back
    return []


@pytest.mark.parametrize(("command", "place"), LONGEST)
def test_a_walk_is_no_longer_than_it_was(command: str, place: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("a.h5", "b.h5"):
        repalign.write_store(tmp_path / name, rng.laplace(size=(200, 3)), ids=map(str, range(200)))
    rows = "".join(f"{number},{number % 3}\n" for number in range(200))
    (tmp_path / "factors.csv").write_text(f"id,shape\n{rows}")
    words = {
        "compare": [tmp_path / "b.h5", "--no-cache", "--quick", "--maps", "rigid"],
        "disentangle": ["--factors", tmp_path / "factors.csv", "--null", "0"],
    }
    line = [command, str(tmp_path / "a.h5"), *map(str, words[command])]
    way = walk_to(place, command, lambda: CliRunner().invoke(app, line, catch_exceptions=False))
    assert way, "the walk does not come by there"
    assert len(way) <= LONGEST[command, place], "\n".join(way)


def test_the_shortest_way_is_counted_without_comprehensions() -> None:
    code = (
        "def toy(): first(); svd()\ndef first(): [second() for _ in range(1)]\n"
        "def second(): svd()\ndef svd(): pass"
    )
    names: dict[str, Any] = {"__name__": "repalign.cli.commands.toy"}
    exec(code, names)
    assert walk_to("svd", "toy", names["toy"]) == [
        "repalign.cli.commands.toy.toy",
        "repalign.cli.commands.toy.svd",
    ]
    exec(code.replace("first(); svd()", "first()"), names)
    assert len(walk_to("svd", "toy", names["toy"])) == 4
