"""What an experiment is: cases that are measured once for every seed, and what is known of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.experiments.reproduce.fetching import fetch
from repalign.experiments.reproduce.given_data import GivenData

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repalign.experiments.reproduce.results import Reproduction

PresetName = Literal["small", "paper"]


@dataclass(frozen=True)
class Case:
    """One setting of an experiment; a subclass has what is set, plain values alone.

    Cases of equal content are the same work, so that a result of theirs is not computed again.
    """

    name: str


@dataclass(frozen=True)
class Measured:
    """One number that a case gave for one seed.

    Attributes:
        measure: What was measured.
        value: The number; NaN where it is undefined.
        at: Place on a curve, such as the step of a training; None for a result of its own.
    """

    measure: str
    value: float
    at: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What one case gave for one seed, and the processor seconds that it took."""

    case: Case
    seed: int
    measured: tuple[Measured, ...]
    seconds: float


@dataclass(frozen=True)
class Work:
    """Where a case may keep files, what it may use of the machine, and the data it is run on."""

    folder: Path
    machine: Machine
    data: GivenData | None = None


@dataclass(frozen=True)
class Published:
    """What a paper gives for a measure of a case: its number, or what it proves.

    ``data`` names the data set of a number; it does not stand next to results on other data.
    """

    case: str
    measure: str
    value: float | str
    data: str = ""


@dataclass(frozen=True)
class Preset:
    """The cases of one size of an experiment, and what they cost.

    Attributes:
        cases: What is measured for every seed.
        n_seeds: How many seeds there are unless others are asked for.
        seconds_per_seed: Processor seconds of one core for all cases of one seed.
        is_estimate: The seconds were worked out from smaller sizes; it was never run whole.
    """

    cases: tuple[Case, ...]
    n_seeds: int
    seconds_per_seed: float
    is_estimate: bool = False


@dataclass(frozen=True)
class Experiment:
    """One experiment of a paper.

    Attributes:
        name: As ``repalign reproduce`` takes it.
        paper: Paper and section.
        shows: What it shows, in a sentence.
        needs: What must be there besides a CPU.
        differs: How the small preset differs from what was published.
        presets: Its sizes by name.
        measure: Measures one case for one seed. It lies in a module, so that other processes
            find it, and depends on case and seed alone.
        sentences: Say what the result means; every one follows from the numbers.
        plot: Draws the result.
        published: The numbers of the paper.
        shown: Measures in the table, in order; all of them if empty. Files have all.
        prepare: Makes files that the cases of a preset share; what is there is not made again.
        select: Makes cases of their own from those that were measured, such as the best of a grid;
            they come first in the table.
        find_data: Tells what the data are that the user gave, or those that stand in where none
            were given; None if the experiment takes no data.
        fetches: Data sets that can be fetched for it, the paper's first.
    """

    name: str
    paper: str
    shows: str
    needs: str
    differs: str
    presets: Mapping[str, Preset]
    measure: Callable[[Case, int, Work], Sequence[Measured]]
    sentences: "Callable[[Reproduction], Sequence[str]]"
    plot: "Callable[[Reproduction], Figure]"
    published: tuple[Published, ...] = ()
    shown: tuple[str, ...] = ()
    prepare: Callable[[Preset, Work], None] | None = None
    select: Callable[[Sequence[Outcome]], Sequence[Outcome]] | None = None
    find_data: Callable[[Path | None], GivenData] | None = None
    fetches: tuple[str, ...] = ()

    def preset(self, name: str) -> Preset:
        """Return a preset by name.

        Raises:
            InputError: The experiment has no such preset.
        """
        if name not in self.presets:
            raise InputError(
                f"{self.name} has no preset {name!r}; expected one of: {', '.join(self.presets)}"
            )
        return self.presets[name]

    def data(self, path: Path | None, fetched: str | None = None) -> GivenData | None:
        """Return the data that it is run on, None if it takes none.

        Args:
            path: The user's file or folder.
            fetched: Data set that is fetched into that folder first, unless it is there.

        Raises:
            InputError: It takes none and some were given, or they are not there or not readable,
                or cannot be fetched.
        """
        if fetched is not None:
            if fetched not in self.fetches:
                known = ", ".join(self.fetches) or "nothing: run it without --fetch"
                raise InputError(f"{self.name} cannot fetch {fetched!r}; expected {known}")
            if path is None:
                raise InputError(f"--fetch {fetched}: give the folder to fetch it into to --data")
            path = fetch(fetched, path)
        if path is not None and not path.exists():
            raise InputError(f"{path}: no such file or folder; give the data set itself to --data")
        if self.find_data is not None:
            return self.find_data(path)
        if path is not None:
            raise InputError(f"{self.name} takes no data; run it without --data")
        return None
