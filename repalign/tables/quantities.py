"""What a comparison measures, by name: where it stands in the records and which way is better."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from repalign.core.maps import ALL_MAPS, KIND_OF
from repalign.core.measures import measure_called
from repalign.exceptions import InputError

Record = Mapping[str, Any]
Closer = Literal["higher", "lower"]

EFFICIENCY = "efficiency"
SPLITS = ("held-out", "in-sample")
# What is shown of many, unless something else is asked for.
FAVOURITES = ("rigid", "linear", "permutation", "ica")


@dataclass(frozen=True)
class Quantity:
    """One number of a pair.

    Attributes:
        name: As it is asked for.
        heading: For people; the arrow says which way is better.
        closer: Whether a higher or a lower value is closer.
        map: The records that hold it: those of this map, or of this measure.
        columns: Their columns of the value and of the ends of its interval.
        is_symmetric: Both directions of a pair have the same value.
        fits: It fits something to the pairing, so that it is also judged on held-out rows.
    """

    name: str
    heading: str
    closer: Closer
    map: str
    columns: tuple[str, str, str] = ("error", "ci_low", "ci_high")
    is_symmetric: bool = False
    fits: bool = True

    @property
    def is_error(self) -> bool:
        """Whether it is the error of a map, of which those of different targets differ in unit."""
        return self.columns[0] == "error"

    @property
    def heading_across_targets(self) -> str:
        """The heading of what ``reading_across_targets`` returns."""
        if not self.is_error:
            return self.heading
        return f"{self.heading.removesuffix(' ↓')} error / rms radius ↓"

    def rows_label(self, split: str) -> str:
        """Say on which rows it was computed."""
        return split if self.fits else "all rows"


class Reading(NamedTuple):
    """A value with the ends of its interval; None where they are not known."""

    value: float | None
    low: float | None
    high: float | None


def quantities_of(names: Iterable[str], measures: Iterable[str] = ()) -> tuple[Quantity, ...]:
    """Return what a comparison with these maps and measures has to show, in their order."""
    chosen = list(dict.fromkeys(names))
    quantities = [_error_of(name) for name in chosen]
    if {"permutation", "rigid", "ica"} <= set(chosen):
        columns = ("efficiency", "efficiency_low", "efficiency_high")
        quantities.append(Quantity(EFFICIENCY, "ICA efficiency ↑", "higher", "ica", columns))
    return (*quantities, *map(_value_of, dict.fromkeys(measures)))


def quantities_in(records: Iterable[Record]) -> tuple[Quantity, ...]:
    """Return what some records hold: maps in the order of the tables, then measures."""
    maps: set[str] = set()
    measures: list[str] = []
    for record in records:
        if record.get("map"):
            maps.add(str(record["map"]))
        else:
            measures.append(str(record["measure"]))
    return quantities_of((name for name in ALL_MAPS if name in maps), measures)


def full_name(name: str) -> str:
    """Return the name of a quantity with the number that its measure has by default."""
    try:
        return measure_called(name).name
    except InputError:
        return name


def favourite(quantities: Iterable[Quantity]) -> Quantity:
    """Return what is shown where nothing was chosen."""
    by_name = {quantity.name: quantity for quantity in quantities}
    for name in FAVOURITES:
        if name in by_name:
            return by_name[name]
    return next(iter(by_name.values()))


def holds(record: Record, quantity: Quantity) -> bool:
    """Tell whether a record is one of those that hold a quantity."""
    return (record.get("map") or record.get("measure")) == quantity.map


def reading(record: Record, quantity: Quantity) -> Reading:
    """Return the value of a quantity in one of its records."""
    return Reading(*(record.get(name) for name in quantity.columns))


def reading_across_targets(record: Record, quantity: Quantity) -> Reading:
    """Return the value in a unit that compares between targets: of errors the RMS radius.

    The diameter is set by two rows, and differs between targets for reasons of its own.
    """
    value = reading(record, quantity)
    if not quantity.is_error:
        return value
    diameter, radius = record.get("diameter"), record.get("rms_radius")
    if not diameter or not radius:
        return Reading(None, None, None)
    unit = diameter / radius
    return Reading(*(None if number is None else number * unit for number in value))


def _error_of(name: str) -> Quantity:
    return Quantity(name, KIND_OF[name].heading, "lower", name)


def _value_of(name: str) -> Quantity:
    measure = measure_called(name)
    return Quantity(
        name=name,
        heading=measure.heading,
        closer="higher" if measure.better == "↑" else "lower",
        map=name,
        columns=("value", "ci_low", "ci_high"),
        # what is fitted in one direction is judged on other rows in each
        is_symmetric=measure.is_symmetric and not measure.fits,
        fits=measure.fits,
    )
