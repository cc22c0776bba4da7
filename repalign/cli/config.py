"""Options of a command from a TOML file: what stands on the line wins."""

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from repalign.cli.inputs import SHOWN
from repalign.exceptions import InputError
from repalign.files import open_regular

LARGEST_FILE = 2**20
# The parser takes a time that grows with the square of the parts of a key, and options have few.
MOST_DOTS = 100
NO_KEY = re.compile(r"""\"[^\"\n]*\"|'[^'\n]*'|#.*|\d+\.\d+""")  # texts, comments, numbers


def _apply(context: typer.Context, path: Path | None) -> Path | None:
    """Let the options of a file be the defaults of the others."""
    if path is None:
        return None
    try:
        told = read_config(path)
        names = _names(context.command)
        context.default_map = {
            names[key].name: _as_given(names[key], value, key)
            for key, value in told.items()
            if _known(key, names)
        }
    except InputError as failure:
        reason = str(failure).removeprefix(f"{path}: ")
        raise typer.BadParameter(f"{path}: {reason}") from failure
    return path


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Options and arguments from this TOML file, by their long names "
        '(maps = ["mean", "rigid"]). What stands on the line wins.',
        dir_okay=False,
        is_eager=True,
        callback=_apply,
    ),
    SHOWN,
]


def read_config(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        InputError: There is none, or it is none.
    """
    with open_regular(path) as stream:
        content = stream.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise InputError(f"holds more than {LARGEST_FILE >> 20} MiB, expected some options")
    try:
        text = content.decode("utf-8")
        for number, line in enumerate(NO_KEY.sub("", text).splitlines(), start=1):
            key = line.partition("=")[0] if "{" not in line else line
            if key.count(".") > MOST_DOTS:
                raise InputError(f"line {number}: has more than {MOST_DOTS} dots in a key")
        return tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as failure:
        raise InputError(f"is not TOML ({failure})") from failure


def _names(command: Any) -> dict[str, Any]:
    """Return the parameters of a command by the names that people know."""
    found = {}
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            found[parameter.name] = parameter
        for flag in parameter.opts:
            if flag.startswith("--") and flag not in ("--help", "--config"):
                found[flag.removeprefix("--")] = parameter
    return found


def _known(key: str, names: Mapping[str, Any]) -> bool:
    if key not in names:
        (nearest, *_) = (*get_close_matches(key, names, n=1), None)
        told = f"did you mean {nearest}?" if nearest else f"expected some of {', '.join(names)}"
        raise InputError(f"{key}: there is no such option; {told}")
    return True


def _as_given(parameter: Any, value: Any, key: str) -> Any:
    """Return a value as the line would give it: tables are NAME=VALUE, lists between commas.

    Raises:
        InputError: It is of no kind that the line knows.
    """
    if isinstance(value, Mapping):
        value = [f"{name}={item}" for name, item in value.items()]
    if isinstance(value, list):
        if not all(isinstance(item, str | int | float) for item in value):
            raise InputError(f"{key}: got a list of lists or tables, expected texts or numbers")
        if any(isinstance(item, bool) for item in value):
            raise InputError(f"{key}: got a list of true and false, expected texts or numbers")
        texts = [str(item) for item in value]
        is_several = getattr(parameter, "multiple", False) or parameter.nargs == -1
        return texts if is_several else ",".join(texts)
    if not isinstance(value, str | int | float):
        raise InputError(f"{key}: got {value!r}, expected a text, a number, true or false")
    if isinstance(value, bool) != bool(getattr(parameter, "is_flag", False)):
        wanted = "a text or a number" if isinstance(value, bool) else "true or false"
        raise InputError(f"{key}: got {_told(value)}, expected {wanted}")
    is_several = getattr(parameter, "multiple", False) or parameter.nargs == -1
    return [str(value)] if is_several else value


def _told(value: Any) -> str:
    """Return a value as it stands in the file."""
    return str(value).lower() if isinstance(value, bool) else repr(value)
