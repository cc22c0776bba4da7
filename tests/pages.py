"""The pages of the documentation as what they tell a reader to run: fenced blocks, in order."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/*.md")),
    ROOT / "benchmarks" / "README.md",
]
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", flags=re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
NUMBER = re.compile(r"[-−]?\d*\.?\d+")


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Where a reader finds it."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Step:
    """One command, or one piece of Python, and the output that the page shows under it."""

    place: str
    language: str
    text: str
    shown: str = ""


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks_of(page: str, text: str) -> list[Block]:
    return [
        Block(page, text[: found.start()].count("\n") + 1, found[1], found[2])
        for found in FENCE.finditer(text)
    ]


def steps_of(block: Block) -> Iterator[Step]:
    """Yield what a block runs: its code, its lines, or the lines after a prompt."""
    if block.language == "python":
        yield Step(block.place, "python", block.text)
    if block.language == "sh":
        for line in block.text.replace("\\\n", " ").splitlines():
            if line and not line.startswith("#"):
                yield Step(block.place, "sh", line)
    if block.language == "console":
        lines = block.text.splitlines()
        for number, line in enumerate(lines):
            if line.startswith("$ "):
                output = takewhile(lambda line: not line.startswith("$ "), lines[number + 1 :])
                yield Step(block.place, "sh", line[2:], "\n".join(output))


def prose_of(text: str) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", text)


def commands_in(line: str) -> list[list[str]]:
    """The calls of repalign in a line of shell, each as its words."""
    line = re.sub(r"\$\([^)]*\)", "SUBSTITUTED", line)
    pieces = re.split(r"&&|\|\|?|;", line)
    words = [shlex.split(re.sub(r"[<>]+ *\S+", "", piece)) for piece in pieces]
    return [call[call.index("repalign") + 1 :] for call in words if "repalign" in call]


def differences(shown: str, real: str) -> list[str]:
    """Lines of a page's output that did not come out in this order, with about these numbers."""
    lines = iter([" ".join(line.split()) for line in real.splitlines()])
    missing = []
    for line in shown.splitlines():
        wanted = " ".join(line.split())
        if wanted and not any(_agree(wanted, line) for line in lines):
            missing.append(line)
            break  # what follows was consumed by the search
    return missing


def _agree(shown: str, real: str) -> bool:
    if NUMBER.sub("#", shown) != NUMBER.sub("#", real):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(real), strict=True)
    return all(_is_close(a.replace("−", "-"), b.replace("−", "-")) for a, b in pairs)


def _is_close(shown: str, real: str) -> bool:
    # Another machine rounds otherwise, and ICA may end in another optimum: percents more so.
    allowed = 0.01 if "." in shown else 15
    return abs(float(shown) - float(real)) <= max(allowed, 0.1 * abs(float(shown)))
