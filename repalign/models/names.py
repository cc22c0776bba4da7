"""Names of models: their forms, presets of the literature, and the shipped models."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError
from repalign.models.families import Kind

LOCAL, CODE = "local", "code"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_ARCHITECTURE = re.compile(r"[a-z][a-z0-9_]*(\.[A-Za-z0-9_-]+)?")
_FUNCTION = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_]\w*)", re.DOTALL)
_REVISION = re.compile(r"[\w./-]{1,128}")

# What stands before the colon of a name, and the whole form.
FORM_OF_LOADER = {
    "timm": "timm:name[@weights-file]",
    "torchvision": "torchvision:name[@weights-file]",
    "mae": "mae:file.pth",
    "hf": "hf:org/name[@revision]",
    CODE: "path/to/file.py:function",
}
FORMS = ", ".join(
    [
        *FORM_OF_LOADER.values(),
        "a directory, a file, a preset, or a name of `repalign zoo list`; with ::text or ::vision "
        "where it holds two encoders",
    ]
)
# Distributions whose versions may explain small differences.
RECORDED_PACKAGES = ("torch", "pillow", "timm", "torchvision", "transformers", "tokenizers")


@dataclass(frozen=True)
class ModelName:
    """Where a model comes from.

    ``loader`` is one of ``FORM_OF_LOADER`` or ``local``; ``name`` is a repository, an architecture,
    a function or empty; ``path`` is a directory or file on this machine, if the name gives one;
    ``part`` is the encoder that is meant of a model with two.
    """

    loader: str
    name: str
    revision: str | None = None
    path: Path | None = None
    part: str | None = None

    def __str__(self) -> str:
        text = self.name if self.path is None else f"{self.name}@{self.path}".lstrip("@")
        if self.revision is not None:
            text += f"@{self.revision}"
        if self.part is not None:
            text += f"::{self.part}"
        return text if self.loader == LOCAL else f"{self.loader}:{text}"


def parse_model(text: str) -> ModelName:
    """Parse the name of a model; a preset must have been replaced before.

    Raises InputError when the text has none of the known forms or the path does not exist.
    """
    name, _, part = text.partition("::")
    return replace(_parse_name(name, text), part=part or None)


def _parse_name(name: str, text: str) -> ModelName:
    function = _FUNCTION.fullmatch(name)
    if function is not None:
        path = existing_path(function["path"])
        if path is None or not path.is_file():
            raise InputError(f"no file at {function['path']}; give path/to/file.py:function")
        return ModelName(CODE, function["name"], path=path)
    loader, colon, argument = name.partition(":")
    if colon and argument and loader in FORM_OF_LOADER:
        if loader == "hf":
            return _parse_repository(argument)
        if loader == "mae":
            return ModelName(loader, "", path=_existing_file(argument))
        if loader != CODE:
            return _parse_architecture(loader, argument)
    path = existing_path(name)
    if path is not None:
        return ModelName(LOCAL, "", path=path)
    raise InputError(f"unknown model {text!r}; expected {FORMS} (`repalign models` lists presets)")


def _parse_repository(argument: str) -> ModelName:
    """Parse ``org/name`` or ``org/name@revision``."""
    name, revision = _split_at(f"hf:{argument}", argument)
    _check_form(_REPOSITORY, name, "repository", f"hf:{argument}")
    if revision is not None:
        _check_form(_REVISION, revision, "revision", f"hf:{argument}")
    if ".." in argument:
        raise InputError(f"'..' in hf:{argument}; expected {FORM_OF_LOADER['hf']}")
    return ModelName("hf", name, revision=revision)


def _parse_architecture(loader: str, argument: str) -> ModelName:
    """Parse ``name`` or ``name@weights-file`` of a library's own architectures."""
    name, file = _split_at(f"{loader}:{argument}", argument)
    _check_form(_ARCHITECTURE, name, "architecture", f"{loader}:{argument}")
    return ModelName(loader, name, path=None if file is None else _existing_file(file))


def _split_at(text: str, argument: str) -> tuple[str, str | None]:
    name, at, tail = argument.partition("@")
    if at and not tail:
        raise InputError(f"nothing after '@' in {text}; leave out the '@' or complete it")
    return name, tail or None


def _check_form(form: re.Pattern[str], part: str, kind: str, text: str) -> None:
    if not form.fullmatch(part):
        raise InputError(
            f"{part!r} in {text} is not the name of a {kind} (`repalign models --help`)"
        )


def existing_path(text: str) -> Path | None:
    """Return the path of that name if it exists."""
    try:
        path = Path(text).expanduser()
        return path if text and path.exists() else None
    except (OSError, RuntimeError, ValueError):
        return None  # longer than names can be, or the home of an unknown user


def _existing_file(text: str) -> Path:
    path = existing_path(text)
    if path is None or not path.is_file():
        raise InputError(f"no weights file at {text}; give the path of a checkpoint on this disk")
    return path


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


_TABLES = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
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
