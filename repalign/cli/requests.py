"""What was asked of a command, as words that ask the same again whatever the presets become."""

import inspect
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from repalign.cli.declared import DECLARED
from repalign.cli.inputs import SHOWN, WRITTEN, marks_of
from repalign.files import file_sha256
from repalign.options import Settings
from repalign.spoken import words_of


def request_of(context: typer.Context, settings: Settings) -> dict[str, Any]:
    """Return the command, its presets resolved, and what the files besides the inputs held."""
    kept = list(_kept(context))
    files = [value for _, value in kept if isinstance(value, Path) and value.is_file()]
    words = [word for parameter, value in kept for word in _words(parameter, value)]
    return {
        "command": [str(context.info_name), *words, *words_of(settings)],
        "files": {str(path): file_sha256(path) for path in files},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def written_names(command: Any) -> set[str]:
    """Return the parameters of a command that name what it writes, and how."""
    parameters = inspect.signature(command.callback, eval_str=True).parameters.values()
    return {each.name for each in parameters if {WRITTEN, SHOWN} & marks_of(each.annotation)}


def differing(
    command: Any, before: Mapping[str, Any], now: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    """Return the options whose values differ between two calls of a command, by their names."""
    left_out = written_names(command)
    found = []
    for parameter in command.params:
        values = before.get(parameter.name), now.get(parameter.name)
        if parameter.name not in left_out and values[0] != values[1]:
            found.append((parameter.opts[-1], *values))
    return found


def _kept(context: typer.Context) -> Iterator[tuple[Any, Any]]:
    """Yield the parameters that say what is computed, but for settings and presets."""
    left_out = written_names(context.command)
    declared: set[str] = getattr(context.command.callback, DECLARED, set())
    for parameter in context.command.params:
        if parameter.name not in left_out | declared and parameter.name in context.params:
            yield parameter, context.params[parameter.name]


def _words(parameter: Any, value: Any) -> Sequence[str]:
    if value is None or value is False or value == () or value == []:
        return ()
    if parameter.param_type_name == "argument":
        return list(map(str, value)) if isinstance(value, list | tuple) else [str(value)]
    flag = parameter.opts[0]
    if value is True:
        return (flag,)
    if isinstance(value, list | tuple):
        return [word for each in value for word in (flag, str(each))]
    return (flag, str(value))
