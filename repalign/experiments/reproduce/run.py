"""Running an experiment: what is not kept yet is computed, case by case and seed by seed."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from repalign.engine.cache import Cache, cache_key, code_digest
from repalign.engine.engine import Engine
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.experiments.reproduce.experiment import Case, Experiment, Measured, Outcome, Work
from repalign.experiments.reproduce.given_data import GivenData
from repalign.experiments.reproduce.results import Reproduction

# Finished cases in the folder of an experiment: never trimmed, and of numbers only.
FOLDER, LIMIT_BYTES = "cases", 2**40


def reproduce(
    experiment: Experiment,
    folder: Path,
    *,
    preset: str = "small",
    seeds: Sequence[int] | None = None,
    engine: Engine | None = None,
    data: Path | GivenData | None = None,
    machine: Machine | None = None,
) -> Reproduction:
    """Run an experiment in a folder; the same call continues after a stop.

    The numbers depend on case and seed alone: not on workers, nor on whether it was stopped.
    Results of other code, or on another device, are computed again.

    Args:
        experiment: Which.
        folder: Keeps what is done; other seeds and presets may lie there too. A damaged file is
            computed again.
        preset: ``small`` or ``paper``.
        seeds: Seeds; those of the preset by default.
        engine: What computes the cases, each with one thread: this process by default. It is
            started here where anything is missing, and its cache becomes that of the folder.
        data: The user's data, for experiments that take some, or what the experiment found there.
        machine: Device and progress callback.

    Raises:
        InputError: A preset or seed that does not exist, or data that cannot be read.
    """
    chosen = experiment.preset(preset)
    wanted = tuple(range(chosen.n_seeds) if seeds is None else seeds)
    if not wanted or min(wanted) < 0 or len(set(wanted)) < len(wanted):
        raise InputError(f"seeds: got {list(wanted)}, expected different numbers from 0")
    machine = machine or Machine()
    given = data if isinstance(data, GivenData) else experiment.data(data)
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    engine = engine or Engine()
    engine.cache = Cache(folder / FOLDER, LIMIT_BYTES)
    cases = [(case, seed) for seed in wanted for case in chosen.cases]

    def key(item: tuple[Case, int]) -> str:
        source = None if given is None else (given.name, given.digest)
        return cache_key("case", experiment.name, repr(item), source, code_digest("cli"))

    results = {key(item): engine.find(key(item), machine) for item in cases}
    missing = [item for item in cases if results[key(item)] is None]
    if missing:
        if experiment.prepare is not None:
            experiment.prepare(chosen, Work(folder, machine, given))
        shared = (experiment.measure, folder, given)
        with engine:
            computed = engine.map(
                "cases", measure_case, missing, machine, key=key, shared=lambda item: shared
            )
        results |= zip(map(key, missing), computed, strict=True)
    outcomes = tuple(_outcome(*item, results[key(item)]) for item in cases)
    return Reproduction(experiment, preset, wanted, outcomes, given)


def measure_case(
    machine: Machine,
    item: tuple[Case, int],
    measure: Callable[[Case, int, Work], Sequence[Measured]],
    folder: Path,
    data: GivenData | None,
) -> tuple[list[tuple[str, float, float | None]], float]:
    """Return what one case gives for one seed, and the processor seconds that it takes."""
    from repalign.core.device import threads_held

    started = time.process_time()
    with threads_held(1):
        measured = [
            (number.measure, float(number.value), number.at)
            for number in measure(*item, Work(folder, machine, data))
        ]
    return measured, time.process_time() - started


def _outcome(case: Case, seed: int, result: Any) -> Outcome:
    measured, seconds = result
    return Outcome(case, seed, tuple(Measured(*number) for number in measured), seconds)
