"""What a command reads is never what it writes: every file named on the line is protected."""

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from repalign.files import protecting

# Stands in the annotation of a parameter that names what the command writes.
WRITTEN = "written"
# Stands in the annotation of a parameter that takes a name from a list, never a file.
NAMED = "named"
# Stands in the annotation of a parameter that says how a result is shown: no part of what was
# computed.
SHOWN = "shown"


def protect_inputs(app: typer.Typer) -> None:
    """Let every command of an application refuse outputs that are files which it was given."""
    for command in app.registered_commands:
        assert command.callback is not None, "a command is a function"
        command.callback = protected(command.callback)
    for group in app.registered_groups:
        assert group.typer_instance is not None, "a group is an application"
        protect_inputs(group.typer_instance)


def protected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with all its parameters protected but those marked otherwise."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    read = [each.name for each in parameters if not {WRITTEN, NAMED} & marks_of(each.annotation)]

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        with protecting(path for name in read for path in _paths(values.get(name))):
            return command(**values)

    return run


def marks_of(annotation: Any) -> set[str]:
    """Return which of the words above stand in the annotation of a parameter."""
    return {WRITTEN, NAMED, SHOWN} & {
        each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, str)
    }


def _paths(value: Any) -> Iterator[Path]:
    """Yield what a value may name: ``a.h5::view``, ``mae:file.pth`` and ``name=a.h5`` too."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _paths(item)
    elif isinstance(value, Path):
        yield value
    elif isinstance(value, str) and value:
        plain = value.split("::")[0]
        for text in {value, plain, plain.split(":", 1)[-1], plain.split("=", 1)[-1]}:
            if text and "\0" not in text:
                yield Path(text)
