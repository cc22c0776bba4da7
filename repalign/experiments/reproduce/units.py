"""One case with one seed: a unit of work that any process can do, and that is kept once done."""

import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from repalign.engine.machine import Machine
from repalign.exceptions import InputError, reading
from repalign.experiments.reproduce.experiment import Case, Experiment, Measured, Preset, Work
from repalign.experiments.reproduce.given_data import GivenData
from repalign.files import open_regular, writing
from repalign.tables.records import DIGEST, digest_of, sealed

FOLDER = "units"


@dataclass(frozen=True)
class Outcome:
    """What one case gave for one seed, and the processor seconds that it took."""

    case: Case
    seed: int
    measured: tuple[Measured, ...]
    seconds: float


@dataclass(frozen=True)
class SeedUnit:
    """The work of one case for one seed."""

    experiment: str
    version: int
    case: Case
    seed: int
    measure: Callable[[Case, int, Work], Sequence[Measured]]
    folder: Path
    data: GivenData | None = None

    @cached_property
    def key(self) -> str:
        """Digest of everything that the numbers depend on."""
        parts: tuple[object, ...] = (
            self.experiment, self.version, version("repalign"), self.case, self.seed
        )  # fmt: skip
        if self.data is not None:
            parts += (self.data.name, self.data.digest)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @property
    def path(self) -> Path:
        """The file that keeps what came out."""
        name = re.sub(r"[^a-z0-9]+", "-", self.case.name.lower()).strip("-")
        return self.folder / FOLDER / f"{name}-seed{self.seed}-{self.key[:12]}.json"

    def run(self, machine: Machine) -> Outcome:
        """Measure, and keep the outcome in one step: the file is there whole or not at all."""
        from repalign.core.device import threads_held

        work = Work(self.folder, machine, self.data)
        started = time.process_time()
        with threads_held(1):
            measured = tuple(self.measure(self.case, self.seed, work))
        outcome = Outcome(self.case, self.seed, measured, time.process_time() - started)
        record = {
            "key": self.key,
            "experiment": self.experiment,
            "case": asdict(self.case),
            "seed": self.seed,
            "seconds": outcome.seconds,
            "measured": [_plain(each) for each in measured],
        }
        with writing(self.path) as whole:
            text = json.dumps(sealed(record), indent=1, allow_nan=False)
            whole.write_text(text + "\n", encoding="utf-8")
        return outcome

    def kept(self) -> Outcome | None:
        """Return the outcome of an earlier run, None if there is none.

        Raises:
            InputError: The file of that name holds something else.
        """
        if not self.path.exists():
            return None
        with open_regular(self.path) as file:
            content = file.read()
        with reading(self.path):
            outcome = self._parse(content)
        if outcome is None:
            raise InputError(
                f"{self.path} holds no result of {self.case.name}, seed {self.seed}; remove it, "
                "and it is computed again"
            )
        return outcome

    def _parse(self, content: bytes) -> Outcome | None:
        try:
            record = json.loads(content)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or record.get("key") != self.key:
            return None
        # files of earlier versions have no digest
        if DIGEST in record and record[DIGEST] != digest_of(record):
            return None
        rows, seconds = record.get("measured"), record.get("seconds")
        if not isinstance(rows, list) or not isinstance(seconds, int | float):
            return None
        measured = []
        for row in rows:
            if not isinstance(row, list) or len(row) != 3 or not isinstance(row[0], str):
                return None
            if not all(isinstance(number, int | float | None) for number in row[1:]):
                return None
            name, value, at = row
            measured.append(Measured(name, float("nan") if value is None else float(value), at))
        return Outcome(self.case, self.seed, tuple(measured), float(seconds))


def run_case(machine: Machine, unit: SeedUnit) -> Outcome:
    """Measure one case with one seed."""
    return unit.run(machine)


def _plain(each: Measured) -> list[Any]:
    value = float(each.value)
    return [each.measure, value if value == value else None, each.at]


def units_of(
    experiment: Experiment,
    preset: Preset,
    seeds: Sequence[int],
    folder: Path,
    data: GivenData | None = None,
) -> list[SeedUnit]:
    """Return every unit, all cases of the first seed before those of the next."""
    return [
        SeedUnit(experiment.name, experiment.version, case, seed, experiment.measure, folder, data)
        for seed in seeds
        for case in preset.cases
    ]
