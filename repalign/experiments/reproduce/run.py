"""Running an experiment: what is not kept yet is computed, case by case and seed by seed."""

from collections.abc import Sequence
from pathlib import Path

from repalign.engine.engine import Engine
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.experiments.reproduce.experiment import Experiment, Work
from repalign.experiments.reproduce.given_data import GivenData
from repalign.experiments.reproduce.results import Reproduction
from repalign.experiments.reproduce.units import FOLDER, run_case, units_of


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

    Args:
        experiment: Which.
        folder: Keeps what is done; other seeds and presets may lie there too.
        preset: ``small`` or ``paper``.
        seeds: Seeds; those of the preset by default.
        engine: What computes the cases, each with one thread: this process by default. It is
            started here where anything is missing.
        data: The user's data, for experiments that take some, or what the experiment found there.
        machine: Device and progress callback.

    Raises:
        InputError: A preset or seed that does not exist, data that cannot be read, or a file
            in the folder that holds something else.
    """
    chosen = experiment.preset(preset)
    wanted = tuple(range(chosen.n_seeds) if seeds is None else seeds)
    if not wanted or min(wanted) < 0 or len(set(wanted)) < len(wanted):
        raise InputError(f"seeds: got {list(wanted)}, expected different numbers from 0")
    machine = machine or Machine()
    given = data if isinstance(data, GivenData) else experiment.data(data)
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    units = units_of(experiment, chosen, wanted, folder, given)
    kept = {unit.key: outcome for unit in units if (outcome := unit.kept()) is not None}
    missing = [unit for unit in units if unit.key not in kept]
    if missing and experiment.prepare is not None:
        experiment.prepare(chosen, Work(folder, machine, given))
    if missing:
        with engine or Engine() as started:
            outcomes = started.map("cases", run_case, missing, machine)
        kept |= {unit.key: outcome for unit, outcome in zip(missing, outcomes, strict=True)}
    return Reproduction(experiment, preset, wanted, tuple(kept[unit.key] for unit in units), given)
