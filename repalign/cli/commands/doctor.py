"""``repalign doctor``."""

from dataclasses import asdict

import typer

from repalign.cli import output
from repalign.cli.options import FormatOption, OutputOption
from repalign.cli.talk import talk_of
from repalign.tables.formats import shown_records


def doctor(context: typer.Context, form: FormatOption = None, to: OutputOption = None) -> None:
    """Check this installation: versions, device, threads, caches, disk, and how to correct them.

    Exit code 1 when something is broken; a missing extra is only noted.

    Example: repalign doctor
    """
    from repalign.doctor import diagnose

    findings = diagnose()
    records = [asdict(finding) for finding in findings]
    talk = talk_of(context)
    output.show(shown_records(records), form, to, talk)
    problems = [finding for finding in findings if finding.status == "problem"]
    for finding in problems:
        talk.error(f"{finding.subject}: {finding.found}; try: {finding.advice}")
    if problems:
        raise typer.Exit(1)
    talk.note("everything that is required is in place")
