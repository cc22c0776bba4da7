"""Make every frozen output anew, and compare outputs value by value."""

import csv
import html
import io
import json
import platform
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from tests.frozen.cases import COMMANDS, write_inputs
from tests.frozen.extractions import extract_all, rows_of

FOLDER = Path(__file__).parents[1] / "data" / "frozen"

# Parts of a result that say when and where it was made.
PLACES = {"versions", "request", "sha256", "digest", "path", "info", "fingerprint", "memory_bytes"}
# Numbers that the rebuild of the statistics changes once: intervals, and how often is drawn.
EXPECTED = re.compile(
    r"(^|[./])(ci_|rms_(low|high)|efficiency_(low|high|p|null)|n_(null|rotations|halves)|"
    r"source_starts|target_starts|rotated_efficiencies|null_errors|smallest_p|plausible|low$|high$)"
)
# How far a value may move, relative to it: on the machine that made the kept values, and on others,
# whose kernels round otherwise. There extracted rows differ in single precision, and with them
# whatever is computed of them; what ICA finds in them is not compared.
ROUNDING, CONVERGED = (1e-12, 1e-8), (1e-9, 2e-2)
SINGLE_PRECISION = 5e-3
BY_ICA = re.compile(r"ica|efficiency|matched|agreement|converged|kurtosis|gradient|iterations")
OF_ROUNDING = re.compile(r"warnings|spectra|null|p_value|p_search|ci_|plausible|best|records_text")

OF_STORES = {"report"} | {command.name for command in COMMANDS if ".h5" in command.words}


class Moved(NamedTuple):
    """A value that is not what was kept."""

    case: str
    place: str
    kept: Any
    now: Any

    @property
    def size(self) -> float:
        """How far it moved, relative to it; infinite where that is not a number."""
        if not all(isinstance(value, int | float) for value in (self.kept, self.now)):
            return float("inf")
        return abs(self.now - self.kept) / max(abs(self.kept), 1e-12)

    @property
    def is_expected(self) -> bool:
        """Whether it is an interval or a number of draws."""
        return EXPECTED.search(self.place) is not None


def machine() -> dict[str, str]:
    """Return what decides the last digits of a number."""
    import torch
    from threadpoolctl import threadpool_info

    kernels = sorted({str(pool.get("architecture")) for pool in threadpool_info()} - {"None"})
    libraries = {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "torch")}
    return {
        "processor": platform.machine(),
        "blas": " ".join(kernels),
        "torch kernels": torch.backends.cpu.get_cpu_capability(),
        **libraries,
    }


def make_outputs(folder: Path, only: str | None = None) -> Iterator[tuple[str, Any]]:
    """Yield every case with what it gives, as plain values."""
    from typer.testing import CliRunner

    from repalign.cli.app import app

    runner = CliRunner()

    def run(words: str) -> None:
        done = runner.invoke(app, words.split(), catch_exceptions=False)
        if done.exit_code != 0:
            raise SystemExit(f"repalign {words}: exit code {done.exit_code}\n{done.stderr}")

    write_inputs(folder)
    extract_all(folder, run)
    yield "extractions", dict(rows_of(folder))
    for command in COMMANDS:
        if only is None or command.name == only or any(only in c.before for c in COMMANDS):
            path = folder / f"{command.name}{command.output}"
            run(f"{command.words} -o {path}")
            yield command.name, plain(path)


def plain(path: Path) -> Any:
    """Return a file as plain values: a JSON document, rows of a CSV, or the tables of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return without_places(json.loads(text))
    if path.suffix == ".csv":
        return without_places(list(csv.DictReader(io.StringIO(text))))
    tables = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", text, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in tables]


def without_places(value: Any) -> Any:
    """Leave out what says when and where a result was made."""
    if isinstance(value, Mapping):
        return {key: without_places(v) for key, v in value.items() if key not in PLACES}
    if isinstance(value, list):
        return [without_places(item) for item in value]
    return value


def flatten(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every number and text of plain values with its place; records go by their names."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flatten(item, f"{place}/{key}" if place else str(key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from flatten(item, f"{place}[{name_of(item, number)}]")
    else:
        yield place, value


def name_of(item: Any, number: int) -> str:
    """Return what a record of a list is about, so that a new one moves no other."""
    keys = ("source", "target", "source_view", "target_view", "map", "measure", "score", "factor")
    keys += ("condition", "split", "label", "fold", "by", "model", "view", "side")
    if not isinstance(item, Mapping):
        return str(number)
    parts = [str(item[key]) for key in keys if isinstance(item.get(key), str)]
    return ",".join(parts) or str(number)


def differences(case: str, kept: Any, now: Any, *, is_same_machine: bool) -> Iterator[Moved]:
    """Yield what moved by more than it may."""
    before, after = dict(flatten(kept)), dict(flatten(now))
    for place in dict.fromkeys([*before, *after]):
        old, new = before.get(place, "absent"), after.get(place, "absent")
        moved = Moved(case, place, old, new)
        if isinstance(old, float) and isinstance(new, float):
            if moved.size > allowed(case, place, is_same_machine=is_same_machine):
                yield moved
        elif old != new and allowed(case, place, is_same_machine=is_same_machine) < 1:
            yield moved


def allowed(case: str, place: str, *, is_same_machine: bool) -> float:
    """Return how far a value may move, relative to it; infinity where it is not compared."""
    if is_same_machine:
        return CONVERGED[0] if BY_ICA.search(place) else ROUNDING[0]
    if case == "extractions":
        return float("inf") if place.endswith("sha256") else SINGLE_PRECISION
    if case in OF_STORES:
        is_loose = BY_ICA.search(place) or OF_ROUNDING.search(place) or case == "report"
        return float("inf") if is_loose else SINGLE_PRECISION
    return CONVERGED[1] if BY_ICA.search(place) else ROUNDING[1]
