"""What a model's name says once it is read, and the forms that names have."""

import re
from dataclasses import dataclass
from pathlib import Path

from repalign.exceptions import InputError

LOCAL, OWN_CODE = "local", "code"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_ARCHITECTURE = re.compile(r"[a-z][a-z0-9_]*(\.[A-Za-z0-9_-]+)?")
_FUNCTION = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_]\w*)", re.DOTALL)
_REVISION = re.compile(r"[\w./-]{1,128}")


@dataclass(frozen=True)
class ModelSpec:
    """Where a model comes from.

    ``loader`` is one of ``LOADERS`` or ``local``; ``name`` is a repository, an architecture or
    empty; ``path`` is a directory or a weights file on this machine, if the name gives one.
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


def parse_repository(loader: str, rest: str) -> ModelSpec:
    """Parse ``org/name`` or ``org/name@revision`` of a hub.

    Raises InputError for anything else.
    """
    name, revision = _divide(loader, rest)
    _check_form(_REPOSITORY, name, "repository", f"{loader}:{rest}")
    if revision is not None:
        _check_form(_REVISION, revision, "revision", f"{loader}:{rest}")
    if ".." in rest:
        raise InputError(f"'..' in {loader}:{rest}; expected {loader}:org/name[@revision]")
    return ModelSpec(loader, name, revision=revision)


def parse_architecture(loader: str, rest: str) -> ModelSpec:
    """Parse ``name`` or ``name@weights-file`` of a library's own architectures.

    Raises InputError for anything else, or when the file is not there.
    """
    name, file = _divide(loader, rest)
    _check_form(_ARCHITECTURE, name, "architecture", f"{loader}:{rest}")
    return ModelSpec(loader, name, path=None if file is None else _existing_file(file))


def parse_file(loader: str, rest: str) -> ModelSpec:
    """Parse the path of a weights file that says itself what it is.

    Raises InputError when the file is not there.
    """
    return ModelSpec(loader, "", path=_existing_file(rest))


def is_function(text: str) -> bool:
    """Whether a name is that of a function of a file of Python."""
    return _FUNCTION.fullmatch(text) is not None


def parse_function(loader: str, rest: str) -> ModelSpec:
    """Parse ``path/to/file.py:function``.

    Raises InputError for anything else, or when the file is not there.
    """
    found = _FUNCTION.fullmatch(rest)
    if found is None:
        raise InputError(f"{rest!r} names no function; expected path/to/file.py:function")
    path = existing_path(found["path"])
    if path is None or not path.is_file():
        raise InputError(f"no file at {found['path']}; give path/to/file.py:function")
    return ModelSpec(loader, found["name"], path=path)


def existing_path(text: str) -> Path | None:
    """Return the path of that name if something is there."""
    try:
        path = Path(text).expanduser()
        return path if text and path.exists() else None
    except (OSError, RuntimeError, ValueError):
        return None  # longer than names can be, or the home of nobody


def _divide(loader: str, rest: str) -> tuple[str, str | None]:
    name, at, tail = rest.partition("@")
    if at and not tail:
        raise InputError(f"nothing after '@' in {loader}:{rest}; leave it out or say what")
    return name, tail or None


def _check_form(form: re.Pattern[str], part: str, what: str, text: str) -> None:
    if not form.fullmatch(part):
        raise InputError(f"{part!r} in {text} is no {what} name (`repalign models --help`)")


def _existing_file(text: str) -> Path:
    path = existing_path(text)
    if path is None or not path.is_file():
        raise InputError(f"no weights file at {text}; give the path of a checkpoint on this disk")
    return path
