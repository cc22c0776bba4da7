"""Options of a command made from the settings class that declares them."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer

from repalign.cli.config import ConfigOption
from repalign.options import DeclaredOption, Settings, options_of, plain_type, with_values

# A command's attribute: the parameters that settings and presets stand for.
DECLARED = "declared_names"
CONFIG = "config"

S = TypeVar("S", bound=Settings)


class Given(dict[tuple[str, ...], Any]):
    """The options that stand on the line, by the path of their field; the others are absent."""

    def settings(self, default: S) -> S:
        """Return settings with what was given in place of their own values."""
        return with_values(default, self)


@dataclass(frozen=True)
class Part:
    """Options that stand on the line for one parameter of a command.

    Attributes:
        made: The options.
        gather: Takes their values out of those of the line and returns the parameter's.
    """

    made: Sequence[inspect.Parameter]
    gather: Callable[[dict[str, Any]], Any]


def standing_for(**parts: Part) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put options in place of parameters of a command; they stand in the help where these do.

    A command that takes options from settings also takes its ``context``, which knows what
    stands on the line.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(**values: Any) -> Any:
            gathered = {place: part.gather(values) for place, part in parts.items()}
            return command(**values, **gathered)

        signature = inspect.signature(command, eval_str=True)
        names = [each.name for part in parts.values() for each in part.made]
        taken = set(signature.parameters) & set(names)
        assert not taken, f"{command.__name__} has its own {taken}"
        parameters = [
            # Typer calls by name; required ones before the others is Python's rule, not ours.
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for own in signature.parameters.values()
            for each in (parts[own.name].made if own.name in parts else [own])
        ]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.declared_names = set(names)  # type: ignore[attr-defined]
        return run

    return decorate


def presets(
    settings: Mapping[str, S], help_texts: Mapping[str, str], default: S, *, panel: str
) -> Part:
    """Return a flag for each preset, for a command that takes the chosen one's settings."""
    flags = [
        _keyword(
            name,
            Annotated[bool, typer.Option(f"--{name}", help=text, rich_help_panel=panel)],
            default=False,
        )
        for name, text in help_texts.items()
    ]

    def gather(values: dict[str, Any]) -> S:
        presets = [name for name in settings if values.pop(name)]
        if len(presets) > 1:
            names = " and ".join(f"--{name}" for name in presets)
            raise typer.BadParameter(f"{names} exclude each other")
        return settings[presets[0]] if presets else default

    return Part(flags, gather)


def options(settings: type) -> Part:
    """Return the options of a settings class, for a command that takes those ``Given``.

    Each stands with its default, behind them the file that all options of the command may come
    from.
    """
    declared = {each.column: each for each in options_of(settings) if each.flag}
    made = [_parameter(name, each) for name, each in declared.items()]
    made.append(_keyword(CONFIG, ConfigOption, default=None))

    def gather(values: dict[str, Any]) -> Given:
        values.pop(CONFIG)  # its callback has read it
        given = given_of(settings, values["context"], values)
        for name in declared:
            del values[name]
        return given

    return Part(made, gather)


def given_of(settings: type, context: Any, values: Mapping[str, Any]) -> Given:
    """Return those options of a settings class that stand on the line of a call."""
    declared = {each.column: each for each in options_of(settings) if each.flag}
    return Given(
        (each.path, _value(each, values[name]))
        for name, each in declared.items()
        if context.get_parameter_source(name).name != "DEFAULT"
    )


def fields_of(shared: Callable[..., Any]) -> Part:
    """Return the fields of a dataclass as options, for a command that takes the dataclass.

    They are annotated as a command's parameters are, and are for what commands have in common
    but no result depends on: files, formats, the machine.
    """
    made = list(inspect.signature(shared, eval_str=True).parameters.values())
    return Part(made, lambda values: shared(**{each.name: values.pop(each.name) for each in made}))


def _keyword(name: str, annotation: Any, *, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _parameter(name: str, each: DeclaredOption) -> inspect.Parameter:
    told = each.declared
    kind = _line_type(each)
    default = _line_default(each)
    text = told.help + (f" Some of: {', '.join(told.choices)}." if told.choices else "")
    info = typer.Option(
        f"--{each.flag}",
        *([f"-{told.short}"] if told.short else []),
        help=text,
        rich_help_panel=told.panel,
        min=told.least if kind in (int, float) else None,
        metavar=told.metavar,
        show_default=True if default is not None else told.absent or False,
    )
    annotation: Any = Annotated[kind if default is not None else kind | None, info]
    return _keyword(name, annotation, default=default)


def _line_type(each: DeclaredOption) -> Any:
    """Return the type that the line is read as: several values are one text or a list."""
    kind = plain_type(each.type)
    if get_origin(kind) is not tuple:
        return kind
    return list[get_args(kind)[0]] if each.declared.repeat else str  # type: ignore[misc]


def _line_default(each: DeclaredOption) -> Any:
    """Return the default as the line would say it."""
    value = each.default
    if isinstance(value, bool):
        return False  # a flag is off unless it is given
    if isinstance(value, tuple):
        if not value:
            return None
        return list(value) if each.declared.repeat else ", ".join(map(str, value))
    return value


def _value(each: DeclaredOption, value: Any) -> Any:
    """Return what the field holds, from what the line says."""
    kind = plain_type(each.type)
    if get_origin(kind) is tuple:
        if each.declared.repeat:
            return tuple(_chosen(each, part) for part in value)
        inner = get_args(kind)[0]
        parts = [part.strip() for part in value.split(",") if part.strip()]
        return tuple(_converted(each, _chosen(each, part), inner) for part in parts)
    if kind is bool and each.flag.startswith("no-"):
        return not value
    return value


def _chosen(each: DeclaredOption, value: Any) -> Any:
    """Return one of several values, which must be among the choices where there are any."""
    choices = each.declared.choices
    if choices and value not in (*choices, each.declared.absent):
        raise typer.BadParameter(
            f"--{each.flag}: got {value!r}, expected some of: {', '.join(choices)}"
        )
    return value


def _converted(each: DeclaredOption, text: str, kind: Any) -> Any:
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError as failure:
            raise typer.BadParameter(
                f"--{each.flag}: got {text!r}, expected numbers separated by commas"
            ) from failure
    return Path(text) if kind is Path else text
