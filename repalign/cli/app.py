"""The root command: assembles the sub-commands and turns expected failures into exit codes."""

import errno
import inspect
import signal
import sys
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperGroup
from typer.models import CommandInfo, OptionInfo, TyperInfo

from repalign import __version__
from repalign.cli.commands import (
    cache,
    compare,
    deconfound,
    demo,
    disentangle,
    doctor,
    extract,
    maps,
    models,
    report,
    reproduce,
    rerun,
    store,
    zoo,
)
from repalign.cli.failures import (
    INTERRUPTED,
    Terminated,
    exit_code_of,
    explain,
    is_debugging,
    is_expected,
    report_failure,
)
from repalign.cli.inputs import protect_inputs
from repalign.cli.streams import finish_streams, prepare_streams
from repalign.cli.talk import Talk
from repalign.expansion import allowing

# What the help says for the type of a value; of a flag that takes none nothing.
SHORT_TYPES = {bool: "", int: "N", float: "NUMBER"}
# May stand anywhere on the line, so that `repalign store info x.h5 --quiet` works too.
ROOT_FLAGS = {"--quiet", "-q", "--verbose", "-v", "--debug"}


def hoist_root_flags(arguments: list[str]) -> list[str]:
    """Move the root's own flags to the front; everything after ``--`` stays where it is."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    before, after = arguments[:end], arguments[end:]
    flags = [word for word in before if word in ROOT_FLAGS]
    return flags + [word for word in before if word not in ROOT_FLAGS] + after


class RepalignGroup(TyperGroup):
    """A group whose expected failures become one line on stderr and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept the root's flags anywhere on the line."""
        return super().parse_args(ctx, hoist_root_flags(args))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; let bugs pass, and with --debug every failure."""
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as failure:
            is_broken_pipe = isinstance(failure, OSError) and failure.errno == errno.EPIPE
            is_interrupt = isinstance(failure, KeyboardInterrupt)
            # A broken pipe is typer's business (`repalign … | head`).
            if is_broken_pipe or not is_expected(failure) or (_debug(ctx) and not is_interrupt):
                raise
            _talk(ctx).error(explain(failure))
            raise typer.Exit(exit_code_of(failure)) from failure


def _talk(ctx: Any) -> Talk:
    return ctx.obj if isinstance(ctx.obj, Talk) else Talk()


def _debug(ctx: Any) -> bool:
    return _talk(ctx).debug


def fit_help(app: typer.Typer) -> None:
    """Let the help of every command be wrapped by the terminal, and give types short names."""
    commands: list[CommandInfo | TyperInfo] = [*app.registered_commands]
    if app.registered_callback is not None:
        commands.append(app.registered_callback)
    for command in commands:
        assert command.callback is not None, "a command is a function"
        paragraphs = inspect.cleandoc(command.callback.__doc__ or "").split("\n\n")
        command.help = "\n\n".join(" ".join(text.split("\n")) for text in paragraphs)
        for parameter in inspect.signature(command.callback, eval_str=True).parameters.values():
            kind, *told = get_args(parameter.annotation) or (parameter.annotation,)
            for info in told:
                if isinstance(info, OptionInfo) and info.metavar is None:
                    info.metavar = SHORT_TYPES.get(next(iter(get_args(kind)), kind))
    for group in app.registered_groups:
        assert group.typer_instance is not None, "a group is an application"
        fit_help(group.typer_instance)


app = typer.Typer(
    cls=RepalignGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"repalign {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Only data, warnings and errors; may stand anywhere."),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say more on stderr; may stand anywhere.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show the traceback of an expected failure too; may stand anywhere."
        ),
    ] = False,
    foreign_bytes: Annotated[
        str | None,
        typer.Option(
            "--foreign-bytes",
            help="What a foreign file may expand to, for example 16G; before the command.",
            show_default="64 times its size",
        ),
    ] = None,
) -> None:
    """Audit the alignment of learned representations.

    Are two models' embeddings the same, up to what, and can the answer be trusted?

    Data goes to stdout, everything else to stderr.

    Exit codes: 0 done, 1 expected failure, 2 wrong usage, 3 a gate did not hold, 70 a bug of
    repalign, 130 interrupted, 143 terminated.
    """
    debug = debug or is_debugging()
    if foreign_bytes is not None:
        context.with_resource(allowing(foreign_bytes))
    context.obj = Talk(quiet=quiet, verbose=verbose, debug=debug)


app.command("demo")(demo.demo)
app.command("extract")(extract.extract)
app.command("compare")(compare.compare)
app.command("disentangle")(disentangle.disentangle)
app.command("deconfound")(deconfound.deconfound)
app.command("apply")(maps.apply)
app.command("reproduce")(reproduce.reproduce)
app.command("report")(report.report)
app.command("rerun", context_settings=rerun.TAKES_OPTIONS)(rerun.rerun)
app.add_typer(maps.app, name="maps")
app.add_typer(models.app, name="models")
app.add_typer(store.app, name="store")
app.add_typer(zoo.app, name="zoo")
app.add_typer(cache.app, name="cache")
app.command("doctor")(doctor.doctor)
protect_inputs(app)
fit_help(app)


def main() -> None:
    """Run the command line and leave with its exit code, whatever the streams are."""
    try:
        prepare_streams()
        signal.signal(signal.SIGTERM, _terminate)
        code = finish_streams(_run())
    except KeyboardInterrupt as failure:
        code = exit_code_of(failure)
    sys.exit(code)


_terminations: list[int] = []


def _terminate(number: int, _: Any) -> None:
    """End in order; a second one ends at once."""
    signal.signal(number, signal.SIG_DFL)
    _terminations.append(number)
    raise Terminated


def _run() -> int:
    """Return the exit code of the command on the line; help is printed before any command runs."""
    try:
        app()
    except SystemExit as leaving:
        # typer takes what comes before the command for Ctrl-C
        if _terminations and leaving.code == INTERRUPTED:
            return report_failure(Terminated())
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except KeyboardInterrupt as failure:
        return exit_code_of(failure)
    except Exception as failure:  # noqa: BLE001 - the outermost boundary: a line, not a traceback
        return report_failure(failure)
    return 0
