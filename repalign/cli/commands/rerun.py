"""``repalign rerun``."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repalign.cli.declared import given_of
from repalign.cli.names import names_of
from repalign.cli.options import MatrixFormatOption, OutputOption
from repalign.cli.requests import differing, written_names
from repalign.cli.talk import Talk, talk_of
from repalign.exceptions import GateError, InputError
from repalign.workflows.compare.settings import CompareSettings

if TYPE_CHECKING:
    from repalign.store.sources.source import EmbeddingSource
    from repalign.workflows.rerun import Recorded

# So many differences are told; the others are counted.
MOST_TOLD = 20
# What follows the result on the line goes to the command that is run again.
TAKES_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}


def rerun(
    context: typer.Context,
    results: Annotated[
        Path,
        typer.Argument(
            help="The .json of a comparison; options of compare that stand behind it override "
            "those that it records."
        ),
    ],
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Also compare with the recorded numbers: exit code 3 where one differs."
        ),
    ] = False,
    tolerance: Annotated[
        float, typer.Option("--within", min=0, help="With --check: differences that do not count.")
    ] = 0.0,
    changed: Annotated[
        bool,
        typer.Option("--changed", help="Go on where inputs have changed since, and say so."),
    ] = False,
    form: MatrixFormatOption = None,
    to: OutputOption = None,
) -> None:
    """Do a comparison again from its record: the same inputs, settings and, here, numbers.

    The record holds the command with its presets resolved and the fingerprints of what it read.
    Inputs that have changed are refused; other versions of libraries and settings that are
    overridden are named. Run it where the comparison ran, so that its paths lead to the files.

    Example: repalign rerun results.json --check -o again.csv
    """
    from repalign.workflows.rerun import changed_numbers, read_recorded

    talk = talk_of(context)
    recorded = read_recorded(results)
    for note in recorded.results.notes:
        talk.note(note)
    command = _command(context, recorded)
    overridden = [*([] if form is None else ["--format", form]), *context.args]
    overridden += [] if to is None else ["--output", str(to)]
    name, *words = recorded.words
    if set(words) & set(command.get_help_option_names(context)):
        raise InputError(f"{results}: its command only shows help; expected one that compares")
    before = command.make_context(name, list(words), context)
    _check_reads_only(command, before, results)
    call = command.make_context(name, [*words, *overridden], context)
    with call:
        _tell_inputs(list(_changed(recorded, call)), talk, is_allowed=changed)
        _tell_ways(recorded, differing(command, before.params, call.params), talk)
        talk.detail(shlex.join(["repalign", name, *words, *overridden]))
        result = command.invoke(call)
    if check:
        lines = list(changed_numbers(recorded, result.to_records(), tolerance))
        _tell_numbers(lines, len(recorded.results.everything), talk)


def _changed(recorded: "Recorded", call: Any) -> Iterator[str]:
    """Yield what has changed of the content that a call would read."""
    from repalign.workflows.rerun import changed_files, changed_inputs

    yield from changed_files(recorded)
    yield from changed_inputs(recorded, _inputs(call))


def _tell_ways(
    recorded: "Recorded", overridden: Sequence[tuple[str, Any, Any]], talk: Talk
) -> None:
    """Say which versions and which options are not those of then."""
    from repalign.workflows.rerun import changed_versions

    for line in changed_versions(recorded):
        talk.note(f"changed: {line}")
    for option, was, now in overridden:
        talk.note(f"changed: {option}: {was} then, now {now}")


def _inputs(call: Any) -> "list[EmbeddingSource]":
    """Return the embeddings that a call of ``compare`` would read."""
    from repalign.store.foreign.identifiers import read_id_lines
    from repalign.workflows.compare.choose import chosen_pairs

    asked = call.params
    stores, against, ids = asked["stores"], asked["against"], asked["ids"]
    names = names_of(asked["name"] or [], [*stores, *([] if against is None else [against])])
    row_ids = None if ids is None else read_id_lines(ids)
    settings = given_of(CompareSettings, call, asked).settings(CompareSettings())
    pairs = chosen_pairs(stores, settings, against=against, names=names, ids=row_ids)
    return [source for pair in pairs for source in pair]


def _command(context: typer.Context, recorded: "Recorded") -> Any:
    """Return the command of the record, as the program itself has it."""
    assert context.parent is not None, "it is run by the program"
    group: Any = context.parent.command
    return group.get_command(context.parent, recorded.words[0])


def _check_reads_only(command: Any, call: Any, path: Path) -> None:
    """Refuse a record that names files to write: nobody's file decides where results go.

    Raises:
        InputError: It does.
    """
    for name in sorted(written_names(command)):
        source = call.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            raise InputError(
                f"{path}: its command has {name!r}, which says where to write or who does the "
                "work; expected only what is computed"
            )


def _tell_inputs(lines: Sequence[str], talk: Talk, *, is_allowed: bool) -> None:
    """Say which inputs have changed.

    Raises:
        InputError: Some have, which was not allowed.
    """
    for line in lines:
        talk.note(f"changed: {line}")
    if lines and not is_allowed:
        raise InputError(
            f"{len(lines)} inputs are not what they were, {lines[0]}; give --changed to go on "
            "with them"
        )


def _tell_numbers(lines: Sequence[str], n_records: int, talk: Talk) -> None:
    """Say which numbers differ from the record.

    Raises:
        GateError: Some do.
    """
    for line in lines[:MOST_TOLD]:
        talk.broken(line)
    if len(lines) > MOST_TOLD:
        talk.broken(f"and {len(lines) - MOST_TOLD} more")
    if lines:
        raise GateError(f"{len(lines)} of {n_records} records differ from what was recorded")
    talk.note(f"all {n_records} records are what was recorded")
