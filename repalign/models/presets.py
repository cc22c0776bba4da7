"""Presets of models and pairs of the literature, and the shipped models."""

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError
from repalign.models.families import Kind
from repalign.models.names import existing_path

# The trained models that come with the package: a directory each.
WEIGHTS_FOLDER = Path(__file__).parents[1] / "zoo" / "weights"


@dataclass(frozen=True)
class Preset:
    """A short name for one checkpoint; ``kind`` is what it takes, ``group`` its series."""

    name: str
    model: str
    certain: str
    inferred: str = ""
    licence: str = "unknown"
    kind: Kind = "text"
    group: str = ""


@dataclass(frozen=True)
class PresetPair:
    """Two presets that belong together, and what is certain of them."""

    name: str
    source: str
    target: str
    certain: str
    inferred: str


def _read_presets(entries: Iterable[Mapping[str, Any]]) -> Iterator[Preset]:
    """Yield a preset for every size and seed of an entry."""
    for entry in entries:
        first, last = entry.get("seeds", (0, 0))
        fields = {key: value for key, value in entry.items() if key not in ("sizes", "seeds")}
        for size in entry.get("sizes", ("",)):
            for seed in range(first, last + 1):
                yield Preset(
                    **{key: value.format(size=size, seed=seed) for key, value in fields.items()}
                )


def preset_groups(presets: Iterable[Preset]) -> dict[str, list[Preset]]:
    """Return presets by their group, in the order in which groups begin."""
    groups: dict[str, list[Preset]] = {}
    for preset in presets:
        groups.setdefault(preset.group, []).append(preset)
    return groups


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PRESETS: dict[str, Preset] = {
    preset.name: preset
    for group in preset_groups(_read_presets(_TABLES["preset"])).values()
    for preset in group
}
PAIRS = tuple(PresetPair(**entry) for entry in _TABLES["pair"])


def shipped_names() -> tuple[str, ...]:
    """Return the names of all shipped models, recipe and seed, in order."""
    return tuple(sorted(path.name for path in WEIGHTS_FOLDER.iterdir() if path.is_dir()))


def find_presets(kind: Kind | None = None, search: str = "") -> list[Preset]:
    """Return presets of a kind with a text in their name, model or group.

    Raises InputError when there are none.
    """
    text = search.lower()
    presets = [
        preset
        for preset in PRESETS.values()
        if (kind is None or preset.kind == kind)
        and any(text in part.lower() for part in (preset.name, preset.model, preset.group))
    ]
    if not presets:
        of_kind = "" if kind is None else f" for {kind}s"
        raise InputError(
            f"no preset{of_kind} has {search!r} in its name; `repalign models` lists them all, and "
            "any model can be named without one (`repalign extract --help`)"
        )
    return presets


def shown_names(names: Sequence[str]) -> str:
    """Join names; of many seeds show the first, the last and their number."""
    seeds: dict[str, list[str]] = {}
    for name in names:
        stem, is_seed, _ = name.rpartition("-seed")
        seeds.setdefault(stem if is_seed else name, []).append(name)
    return ", ".join(
        ", ".join(series)
        if len(series) <= 2
        else f"{series[0]} … seed{series[-1].rpartition('-seed')[2]} ({len(series)})"
        for series in seeds.values()
    )


def resolve_name(text: str) -> tuple[str, Preset | None]:
    """Replace the name of a preset or a shipped model by the model.

    What exists under that name on this disk comes before any preset.

    Raises InputError for a bare word that resembles a preset and is not an existing path.
    """
    if existing_path(text) is not None:
        return text, None
    preset = PRESETS.get(text)
    if preset is not None:
        return preset.model, preset
    shipped = shipped_names()
    if text in shipped:
        return str(WEIGHTS_FOLDER / text), None
    if ":" not in text and "/" not in text:
        near = difflib.get_close_matches(text, [*PRESETS, *shipped], n=3, cutoff=0.6)
        if near:
            raise InputError(f"unknown model {text!r}; did you mean {', '.join(near)}?")
    return text, None
