"""Options of a command made from the settings class that declares them."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar, get_args, get_origin

import typer

from repalign.cli.config import ConfigOption
from repalign.options import DeclaredOption, Settings, options_of, plain_type, with_values

# A command's attribute: the parameters that settings and presets stand for.
DECLARED = "declared_names"
CONFIG = "config"

S = TypeVar("S", bound=Settings)
S_co = TypeVar("S_co", bound=Settings, covariant=True)


class NamedSettings(Protocol[S_co]):
    """Settings under a name that a command offers as a flag."""

    @property
    def name(self) -> str:
        """Name, and flag."""

    @property
    def help(self) -> str:
        """What it stands for, in a line."""

    @property
    def settings(self) -> S_co:
        """What it stands for, exactly."""


class Given(dict[tuple[str, ...], Any]):
    """The options that stand on the line, by the path of their field; the others are absent."""

    def settings(self, default: S) -> S:
        """Return settings with what was given in place of their own values."""
        return with_values(default, self)


def with_presets(
    presets: Sequence[NamedSettings[S]], default: S, *, panel: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command a flag for each preset; it takes the chosen one's settings as ``preset``."""
    by_name = {each.name: each for each in presets}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        made = [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False,
                annotation=Annotated[
                    bool,
                    typer.Option(f"--{each.name}", help=each.help, rich_help_panel=panel),
                ],
            )
            for each in presets
        ]

        @functools.wraps(command)
        def run(**values: Any) -> Any:
            chosen = [each for name, each in by_name.items() if values.pop(name)]
            if len(chosen) > 1:
                names = " and ".join(f"--{each.name}" for each in chosen)
                raise typer.BadParameter(f"{names} exclude each other")
            return command(**values, preset=chosen[0].settings if chosen else default)

        return _with_parameters(run, command, "preset", made)

    return decorate


def with_options(settings: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of a settings class; it takes them as one ``given``.

    They stand in the help where ``given`` stands among the parameters, each with its default,
    behind them the file that all options of the command may come from. The command takes its
    ``context`` too, which knows what stands on the line.
    """
    declared = {each.column: each for each in options_of(settings) if each.flag}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        made = [_parameter(name, each) for name, each in declared.items()]
        made.append(
            inspect.Parameter(
                CONFIG, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ConfigOption
            )
        )

        @functools.wraps(command)
        def run(**values: Any) -> Any:
            values.pop(CONFIG)  # its callback has read it
            given = given_of(settings, values["context"], values)
            others = {name: value for name, value in values.items() if name not in declared}
            return command(**others, given=given)

        return _with_parameters(run, command, "given", made)

    return decorate


def given_of(settings: type, context: Any, values: Mapping[str, Any]) -> Given:
    """Return those options of a settings class that stand on the line of a call."""
    declared = {each.column: each for each in options_of(settings) if each.flag}
    return Given(
        (each.path, _value(each, values[name]))
        for name, each in declared.items()
        if context.get_parameter_source(name).name != "DEFAULT"
    )


def with_shared(options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options that are the fields of a dataclass; it takes it as ``shared``.

    They are annotated as a command's parameters are, and are for what commands have in common
    but no result hangs on: files, formats, the machine.
    """
    made = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in inspect.signature(options, eval_str=True).parameters.values()
    ]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(**values: Any) -> Any:
            shared = options(**{each.name: values.pop(each.name) for each in made})
            return command(**values, shared=shared)

        return _with_parameters(run, command, "shared", made)

    return decorate


def _with_parameters(
    run: Callable[..., Any],
    command: Callable[..., Any],
    place: str,
    made: Sequence[inspect.Parameter],
) -> Callable[..., Any]:
    """Let ``run`` be called as the command is, with other parameters in one's place."""
    signature = inspect.signature(command, eval_str=True)
    taken = set(signature.parameters) & {each.name for each in made}
    assert not taken, f"{command.__name__} has its own {taken}"
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters += made if parameter.name == place else [parameter]
    # Typer calls by name; required ones before the others is Python's rule, not ours.
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    names = {each.name for each in made}
    run.declared_names = getattr(command, DECLARED, set()) | names  # type: ignore[attr-defined]
    return run


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
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


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
        return list(value) if each.declared.repeat else ",".join(map(str, value))
    return value


def _value(each: DeclaredOption, value: Any) -> Any:
    """Return what the field holds, from what the line says."""
    kind = plain_type(each.type)
    if get_origin(kind) is tuple:
        if each.declared.repeat:
            return tuple(value)
        inner = get_args(kind)[0]
        parts = [part.strip() for part in value.split(",") if part.strip()]
        return tuple(_converted(each, part, inner) for part in parts)
    if kind is bool and each.flag.startswith("no-"):
        return not value
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
