"""``repalign rerun``."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repalign.cli.declared import given_of
from repalign.cli.names import names_of
from repalign.cli.options import MatrixFormatOption, OutputOption
from repalign.cli.requests import differing, written_names
from repalign.cli.talk import Talk, talk_of
from repalign.comparison.settings import CompareSettings
from repalign.exceptions import GateError, InputError

if TYPE_CHECKING:
    from repalign.store.source import EmbeddingSource

# So many differences are shown; the others are counted.
MOST_SHOWN = 20
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
    from repalign.results.rerun import (
        changed_inputs,
        changed_numbers,
        changed_versions,
        read_recorded,
    )

    talk = talk_of(context)
    recorded = read_recorded(results)
    for note in recorded.notes:
        talk.note(note)
    name, *words = recorded.request.command
    assert context.parent is not None, "it is run by the program"
    group: Any = context.parent.command
    command = group.get_command(context.parent, name)
    if set(words) & set(command.get_help_option_names(context)):
        raise InputError(f"{results}: its command only shows help; expected one that compares")
    before = command.make_context(name, list(words), context)
    _check_reads_only(command, before, results)
    overriding = [*([] if form is None else ["--format", form]), *context.args]
    overriding += [] if to is None else ["--output", str(to)]
    call = command.make_context(name, [*words, *overriding], context)
    with call:
        changes = list(changed_inputs(recorded, _inputs(call)))
        for line in changes:
            talk.note(f"changed: {line}")
        if changes and not changed:
            raise InputError(
                f"{len(changes)} inputs are not what they were, {changes[0]}; give --changed to "
                "go on with them"
            )
        for line in changed_versions(recorded):
            talk.note(f"changed: {line}")
        for option, then, now in differing(command, before.params, call.params):
            talk.note(f"changed: {option}: {then} then, now {now}")
        talk.detail(shlex.join(["repalign", name, *words, *overriding]))
        result = command.invoke(call)
    if check:
        differences = list(changed_numbers(recorded, result.to_records(), tolerance))
        _show_differences(differences, len(recorded.everything), talk)


def _inputs(call: Any) -> "list[EmbeddingSource]":
    """Return the embeddings that a call of ``compare`` would read."""
    from repalign.comparison.choose import chosen_pairs
    from repalign.store.formats.identifiers import read_id_lines

    options = call.params
    stores, against, ids = options["stores"], options["against"], options["ids"]
    names = names_of(options["name"] or [], [*stores, *([] if against is None else [against])])
    row_ids = None if ids is None else read_id_lines(ids)
    settings = given_of(CompareSettings, call, options).settings(CompareSettings())
    pairs = chosen_pairs(stores, settings, against=against, names=names, ids=row_ids)
    return [source for pair in pairs for source in pair]


def _check_reads_only(command: Any, call: Any, path: Path) -> None:
    """Refuse a record that names files to write: no file decides where results go.

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


def _show_differences(lines: Sequence[str], n_records: int, talk: Talk) -> None:
    """Show which numbers differ from the record.

    Raises:
        GateError: Some do.
    """
    for line in lines[:MOST_SHOWN]:
        talk.broken(line)
    if len(lines) > MOST_SHOWN:
        talk.broken(f"and {len(lines) - MOST_SHOWN} more")
    if lines:
        raise GateError(f"{len(lines)} of {n_records} records differ from what was recorded")
    talk.note(f"all {n_records} records are what was recorded")
