"""Names of models as users write them, parsed into one form."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from repalign.exceptions import InputError

Loader = Literal["hf", "timm", "torchvision", "mae", "local"]

LOADERS: tuple[Loader, ...] = ("hf", "timm", "torchvision", "mae")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_ARCHITECTURE = re.compile(r"[a-z][a-z0-9_]*(\.[A-Za-z0-9_-]+)?")
_REVISION = re.compile(r"[\w./-]{1,128}")

FORMS = (
    "hf:org/name[@revision], timm:name[@weights-file], torchvision:name[@weights-file], "
    "mae:file.pth, a directory, a file, or a preset"
)


@dataclass(frozen=True)
class ModelSpec:
    """Where a model comes from.

    ``name`` is a repository (hf), an architecture (timm, torchvision) or empty (mae, local);
    ``path`` is a directory or a weights file on this machine, if the name gives one.
    """

    loader: Loader
    name: str
    revision: str | None = None
    path: Path | None = None

    def __str__(self) -> str:
        text = self.name if self.path is None else f"{self.name}@{self.path}".lstrip("@")
        if self.revision is not None:
            text += f"@{self.revision}"
        return text if self.loader == "local" else f"{self.loader}:{text}"


def parse_model(text: str) -> ModelSpec:
    """Parse the name of a model; a preset's name must have been replaced before.

    Raises InputError when the text has none of the known forms or the path does not exist.
    """
    prefix, colon, rest = text.partition(":")
    if colon and prefix in LOADERS and rest:
        return _parse_prefixed(prefix, rest)
    path = existing_path(text)
    if path is not None:
        return ModelSpec("local", "", path=path)
    raise InputError(f"unknown model {text!r}; expected {FORMS} (`repalign models` lists presets)")


def existing_path(text: str) -> Path | None:
    """Return the path of that name if something is there."""
    try:
        path = Path(text).expanduser()
        return path if text and path.exists() else None
    except (OSError, RuntimeError, ValueError):
        return None  # longer than names can be, or the home of nobody


def _parse_prefixed(loader: Loader, rest: str) -> ModelSpec:
    if loader == "mae":
        return ModelSpec("mae", "", path=_existing(rest))
    name, at, tail = rest.partition("@")
    if at and not tail:
        raise InputError(f"nothing after '@' in {loader}:{rest}; expected {FORMS}")
    if loader == "hf":
        _check_form(_REPOSITORY, name, "repository", f"hf:{rest}")
        if at:
            _check_form(_REVISION, tail, "revision", f"hf:{rest}")
        if ".." in rest:
            raise InputError(f"'..' in hf:{rest}; expected hf:org/name[@revision]")
        return ModelSpec("hf", name, revision=tail or None)
    _check_form(_ARCHITECTURE, name, "architecture", f"{loader}:{rest}")
    return ModelSpec(loader, name, path=_existing(tail) if at else None)


def _check_form(form: re.Pattern[str], part: str, what: str, text: str) -> None:
    if not form.fullmatch(part):
        raise InputError(f"{part!r} in {text} is no {what} name; expected {FORMS}")


def _existing(text: str) -> Path:
    path = existing_path(text)
    if path is None or not path.is_file():
        raise InputError(f"no weights file at {text}; give the path of a checkpoint on this disk")
    return path
