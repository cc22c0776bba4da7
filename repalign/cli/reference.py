"""The reference of all commands as Markdown, made from their own help.

``python -m repalign.cli.reference > docs/cli.md`` writes it; a test compares the two.
"""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, Literal, get_args, get_origin

import typer

from repalign.cli import output
from repalign.cli.app import app

HEAD = """# Commands

Made from the help of the commands (`python -m repalign.cli.reference > docs/cli.md`).
"""


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command with the words that call it, the root first."""
    yield from _walk("repalign", typer.main.get_command(app))


def reference() -> str:
    """Return the whole reference."""
    return "\n".join([HEAD, *(_section(words, command) for words, command in commands())])


def _walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield words, command
    for name in sorted(getattr(command, "commands", {})):
        yield from _walk(f"{words} {name}", command.commands[name])


def _section(words: str, command: Any) -> str:
    parameters = [p for p in command.params if not getattr(p, "hidden", False)]
    usage = " ".join([words, *(p.name.upper() for p in parameters if not _is_option(p))])
    lines = [f"## {words}", "", f"`{usage}`", "", cleandoc(command.help or ""), ""]
    rows = [
        f"| {_names(p)} | {_help(p)} | {_default(p)} |"
        for p in parameters
        if "completion" not in p.name
    ]
    if rows:
        lines += ["| parameter | meaning | default |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _is_option(parameter: Any) -> bool:
    return parameter.param_type_name == "option"


def _names(parameter: Any) -> str:
    if not _is_option(parameter):
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])


def _help(parameter: Any) -> str:
    text = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", r"\|")
    text = text.replace(r"\[", "[")  # escaped for the terminal, plain here
    annotation = parameter.type_descriptor.annotation
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    if choices:
        text += " One of: " + ", ".join(f"`{choice}`" for choice in choices) + "."
    return text


def _default(parameter: Any) -> str:
    default = parameter.default
    if isinstance(getattr(parameter, "show_default", None), str):
        return str(parameter.show_default)
    if default is None or callable(default) or default is False or parameter.required:
        return ""
    if isinstance(default, list | tuple):
        return ", ".join(f"`{item}`" for item in default)
    return f"`{default}`"


if __name__ == "__main__":
    output.emit(reference())
