"""``repalign reproduce``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repalign.cli import output
from repalign.cli.declared import Given, fields_of, options, standing_for
from repalign.cli.engine import EngineOptions
from repalign.cli.inputs import NAMED, WRITTEN
from repalign.cli.options import FormatOption, MachineDeviceOption
from repalign.cli.tables import shown_reproduction
from repalign.cli.talk import talk_of
from repalign.exceptions import InputError
from repalign.experiments.reproduce.settings import ReproduceSettings
from repalign.figures.style import default_style
from repalign.files import ensure_directory, open_regular
from repalign.printable import printable
from repalign.tables.formats import shown_records
from repalign.tables.records import as_csv, as_json

if TYPE_CHECKING:
    from repalign.experiments.reproduce.experiment import Experiment, Preset
    from repalign.experiments.reproduce.results import Reproduction

DEFAULT_FOLDER = Path("reproduced")


@standing_for(given=options(ReproduceSettings), shared=fields_of(EngineOptions))
def reproduce(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Name of an experiment; --list names them all."), NAMED
    ] = None,
    list_all: Annotated[
        bool,
        typer.Option("--list", help="Say of every experiment what it shows, needs and takes."),
    ] = False,
    *,
    given: Given,
    shared: EngineOptions,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder of the results; the same command continues there after a stop.",
            file_okay=False,
            show_default="reproduced/NAME-PRESET",
        ),
        WRITTEN,
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="File or folder of the data set itself, for experiments that take one.",
            show_default="what comes along",
        ),
    ] = None,
    fetched: Annotated[
        str | None,
        typer.Option(
            "--fetch",
            metavar="NAME",
            help="Data set to fetch into the folder of --data first, unless it is there; --list "
            "names those of an experiment.",
        ),
    ] = None,
    device: MachineDeviceOption = "cpu",
    form: FormatOption = None,
) -> None:
    """Run an experiment of the papers, and show its result next to the published one.

    Writes results.csv (every seed), summary.csv, results.json and figure.png into the folder. What
    is done is kept case by case: after a stop, the same command computes only what is missing.
    Same seeds, same numbers, with any number of workers.

    Example: repalign reproduce gaussian-null --seeds 3 --workers 2 -o gaussian-null
    """
    from repalign.core.device import choose_device
    from repalign.engine.machine import Machine
    from repalign.experiments.reproduce.registry import experiments, find_experiment
    from repalign.experiments.reproduce.run import reproduce as run

    chosen = output.choose_format(form, None)
    if list_all or name is None:
        if name is not None or not list_all:
            raise typer.BadParameter("give the name of an experiment, or --list")
        output.show(shown_records([_entry(each) for each in experiments()]), chosen)
        return
    experiment = find_experiment(name)
    settings = given.settings(ReproduceSettings())
    size = experiment.preset(settings.preset)
    where = folder or DEFAULT_FOLDER / f"{experiment.name}-{settings.preset}"
    given_data = experiment.data(data, fetched)
    on = "" if given_data is None else given_data.name
    _check_folder(where, (experiment.name, settings.preset, on))
    talk = talk_of(context)
    engine = shared.chosen(settings.workers)
    shared.warn(talk)
    seeds = range(settings.n_seeds or size.n_seeds)
    talk.note(f"{name}, {settings.preset}: {_cost(size, len(seeds), settings.workers or 1)}")
    with talk.stages(f"reproducing {name}") as on_stage:
        result = run(
            experiment,
            where,
            preset=settings.preset,
            seeds=seeds,
            engine=engine,
            data=given_data,
            machine=Machine(choose_device(device), on_stage=on_stage),
        )
    output.show(shown_reproduction(result), chosen)
    if chosen != "table":
        for line in result.sentences():
            talk.note(line)
    _keep(result, where)
    talk.note(f"wrote {where}/results.csv, summary.csv, results.json and figure.png")
    talk.note(f"{result.seconds:.0f} processor seconds in all")


def _entry(experiment: "Experiment") -> dict[str, str]:
    return {
        "experiment": experiment.name,
        "shows": experiment.shows,
        "paper": experiment.paper,
        "needs": experiment.needs
        + (f"; --fetch {' or '.join(experiment.fetches)}" if experiment.fetches else ""),
        "takes": "; ".join(
            f"{name}: {_duration(size.n_seeds * size.seconds_per_seed)}"
            + (" (estimate)" if size.is_estimate else "")
            for name, size in experiment.presets.items()
        ),
    }


def _cost(preset: "Preset", n_seeds: int, workers: int) -> str:
    seconds = n_seeds * preset.seconds_per_seed
    how = "estimated" if preset.is_estimate else "measured"
    shared = f", shared by {workers} processes" if workers > 1 else ""
    return (
        f"{len(preset.cases)} cases, seeds 0 to {n_seeds - 1}; about {_duration(seconds)} of one "
        f"core in all ({how} on a small machine){shared}; what is there already is not done again"
    )


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _check_folder(where: Path, wanted: tuple[str, str, str]) -> None:
    """Refuse a folder with the results of something else, before anything is computed.

    ``wanted`` are the names of experiment, preset and data.
    """
    import json

    ensure_directory(where)
    output.check_figure(where / "figure.png")
    path = where / "results.json"
    if not path.exists():
        return
    try:
        with open_regular(path) as file:
            record: Any = json.load(file)
    except (ValueError, RecursionError):
        record = None
    entries = record if isinstance(record, dict) else {}
    data = entries.get("data") or {}
    present = ("something", "else", "")
    if {"experiment", "preset"} <= entries.keys() and isinstance(data, dict):
        present = (entries["experiment"], entries["preset"], data.get("name", ""))
    if present != wanted:
        raise InputError(
            f"{where} holds results of {_told(present)}, expected {_told(wanted)} or an empty "
            "folder; choose another --output"
        )


def _told(names: tuple[str, str, str]) -> str:
    experiment, preset, data = (printable(str(name)) for name in names)
    return f"{experiment} {preset}" + (f" on {data}" if data else "")


def _keep(result: "Reproduction", where: Path) -> None:
    output.emit(as_csv(result.to_records()), where / "results.csv")
    output.emit(as_csv([each.to_record() for each in result.summaries()]), where / "summary.csv")
    figure = default_style()(result.experiment.plot)(result)
    output.save_figure(figure, where / "figure.png")
    output.emit(as_json(result.to_dict()), where / "results.json")
