"""The root command: assembles the sub-commands and turns expected failures into exit codes."""

import errno
import inspect
import os
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
from repalign.cli.inputs import protect_inputs
from repalign.cli.streams import finish_streams, prepare_streams
from repalign.cli.talk import Talk
from repalign.exceptions import RepalignError
from repalign.expansion import allowing

INTERRUPTED, TERMINATED = 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM came, as schedulers send it when the time of a job is over; ends like Ctrl-C."""


# What REPALIGN_DEBUG may say for: no.
OFF = {"", "0", "false", "no", "off"}
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
        """Run the command; only --debug lets the traceback of an expected failure through."""
        try:
            return super().invoke(ctx)
        except RepalignError as failure:
            if _debug(ctx):
                raise
            _talk(ctx).error(str(failure))
            raise typer.Exit(failure.exit_code) from failure
        except OSError as failure:
            # A broken pipe is typer's business (`repalign … | head`).
            if _debug(ctx) or failure.errno == errno.EPIPE:
                raise
            _talk(ctx).error(explain_os_error(failure))
            raise typer.Exit(1) from failure
        except MemoryError as failure:
            if _debug(ctx):
                raise
            _talk(ctx).error("the memory does not suffice; free some, or allow more")
            raise typer.Exit(1) from failure
        except KeyboardInterrupt as failure:
            what = "terminated" if isinstance(failure, Terminated) else "interrupted"
            _talk(ctx).error(f"{what}; what was committed is kept, nothing is half-written")
            raise typer.Exit(_code_of(failure)) from failure


def _code_of(failure: KeyboardInterrupt) -> int:
    return TERMINATED if isinstance(failure, Terminated) else INTERRUPTED


def _talk(ctx: Any) -> Talk:
    return ctx.obj if isinstance(ctx.obj, Talk) else Talk()


def _debug(ctx: Any) -> bool:
    return _talk(ctx).debug


def explain_os_error(failure: OSError) -> str:
    """Return in one line what the system refused, and of which file."""
    where = f"{failure.filename}: " if failure.filename else ""
    what = failure.strerror or str(failure)
    if failure.errno == errno.EEXIST:
        what = "is there already and no folder; choose another name"
    if failure.errno == errno.ENOSPC:
        what += "; free some space and run the same command again"
    return where + what


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

    Exit codes: 0 done, 1 expected failure, 2 wrong usage, 3 a gate did not hold, 130 interrupted,
    143 terminated.
    """
    debug = debug or os.environ.get("REPALIGN_DEBUG", "").lower() not in OFF
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
    prepare_streams()
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(finish_streams(_run()))


def _terminate(number: int, _: Any) -> None:
    """End in order; a second one ends at once."""
    signal.signal(number, signal.SIG_DFL)
    raise Terminated


def _run() -> int:
    """Return the exit code of the command on the line; help is printed before any command runs."""
    try:
        app()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except OSError as failure:
        Talk().error(explain_os_error(failure))
        return 1
    except KeyboardInterrupt as failure:
        return _code_of(failure)
    return 0
