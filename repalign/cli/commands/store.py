"""``repalign store``: look at, check, pack and convert embeddings."""

from pathlib import Path
from typing import Annotated

import typer

from repalign.cli import output
from repalign.cli.declared import Given, options, standing_for
from repalign.cli.inputs import WRITTEN
from repalign.cli.options import FormatOption, OutputOption, OverwriteOption
from repalign.cli.talk import talk_of
from repalign.store.format import WriteOptions
from repalign.store.formats.formats import SUFFIX_LIST, ExportFormat
from repalign.tables.formats import shown_records

# Of the digest of a sample in a table: enough to tell samples apart.
SHOWN_DIGITS = 8

app = typer.Typer(
    no_args_is_help=True, help="Look at, check, pack, import and export sets of embeddings."
)

EmbeddingsArgument = Annotated[
    str,
    typer.Argument(
        help=f"A store, a foreign file ({SUFFIX_LIST}) or a thingsvision folder; file::view "
        "chooses a view.",
    ),
]


WrittenOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The same as OUT, as other commands have it."),
    WRITTEN,
]


@app.command()
def info(
    context: typer.Context,
    embeddings: EmbeddingsArgument,
    form: FormatOption = None,
    to: OutputOption = None,
) -> None:
    """Say what a set of embeddings holds, how it was made and what identifies its rows.

    Example: repalign store info run.h5
    """
    from repalign.store.describe import describe_embeddings, description_records

    description = describe_embeddings(embeddings)
    records = shown_records(description_records(description), description)
    output.show(records, form, to, talk_of(context))


@app.command()
def head(
    context: typer.Context,
    embeddings: EmbeddingsArgument,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Rows to show.")] = 5,
    columns: Annotated[
        int | None,
        typer.Option(
            "--columns", min=0, help="Columns to show; by default 4 in a table, else all."
        ),
    ] = None,
    form: FormatOption = None,
    to: OutputOption = None,
) -> None:
    """Show the first rows: identity and values.

    Example: repalign store head run.h5::final -n 3
    """
    from repalign.store.describe import read_head
    from repalign.store.open import open_embeddings

    chosen = output.choose_format(form, to)
    source = open_embeddings(embeddings)
    shown = columns if columns is not None else (4 if chosen == "table" else source.dim)
    hidden = {f"e{column}" for column in range(shown, source.dim)}
    found = read_head(source, rows)
    if chosen == "table":  # as narrow as a terminal
        hidden |= {name for name in found[0] if all(each[name] in (None, "") for each in found)}
        for each in found:
            if each.get("sample_sha"):
                each["sample_sha"] = each["sample_sha"][:SHOWN_DIGITS]
    records = [{k: v for k, v in each.items() if k not in hidden} for each in found]
    output.show(shown_records(records), chosen, to, talk_of(context))


@app.command()
def verify(
    context: typer.Context,
    stores: Annotated[list[Path], typer.Argument(help="One or more stores.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Only structure and headers, not every value.")
    ] = False,
    form: FormatOption = None,
    to: OutputOption = None,
) -> None:
    """Check every byte of stores against their checksums; exit code 1 if one is damaged.

    Example: repalign store verify runs/*.h5
    """
    from repalign.store import verify_store
    from repalign.store.open import check_is_store

    talk = talk_of(context)
    results = []
    for path in stores:
        check_is_store(path)
        with talk.progress(f"verifying {path}") as on_progress:
            results.append(
                verify_store(path, mode="quick" if quick else "full", on_progress=on_progress)
            )
    records = [
        {
            "path": str(result.path),
            "sound": result.is_sound,
            "mode": result.mode,
            "n_rows": result.n_rows,
            "n_files": result.n_files,
            "problems": "; ".join(result.problems),
        }
        for result in results
    ]
    output.show(shown_records(records), form, to, talk)
    for problem in (problem for result in results for problem in result.problems):
        talk.error(problem)
    if not all(result.is_sound for result in results):
        raise typer.Exit(1)


@app.command()
def pack(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(help="A finished store that is a folder of shards.")],
    out: Annotated[
        Path | None,
        typer.Argument(help="The file; by default the folder's name with .h5."),
        WRITTEN,
    ] = None,
    to: WrittenOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Copy a folder of shards into one file, checking every value; the folder stays.

    Example: repalign store pack run run.h5
    """
    from repalign.store import pack_store

    talk, target = talk_of(context), _either(out, to)
    with talk.progress("packing") as on_progress:
        written = pack_store(directory, target, overwrite=overwrite, on_progress=on_progress)
    talk.note(f"wrote {written}")


@app.command("import")
@standing_for(given=options(WriteOptions))
def import_embeddings(
    context: typer.Context,
    embeddings: EmbeddingsArgument,
    out: Annotated[
        Path | None, typer.Argument(help="The store; one file if it ends in .h5."), WRITTEN
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            "--ids", help="File with one id a line, or table.csv::column, in the order of the rows."
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id-column", help="Column or array of the same file that holds the ids."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the view in the store.")
    ] = None,
    *,
    given: Given,
    to: WrittenOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Copy foreign embeddings into a store, with hashes of the files they come from.

    Example: repalign store import emb.npy emb.h5 --ids ids.txt
    """
    from repalign.store.exchange import import_store
    from repalign.store.open import open_embeddings

    talk, target = talk_of(context), _needed(out, to)
    options = given.settings(WriteOptions())
    source = open_embeddings(embeddings, ids=ids, id_column=id_column)
    with talk.progress("importing") as on_progress:
        written = import_store(
            source,
            target,
            view=name,
            licence=options.licence,
            overwrite=overwrite,
            on_progress=on_progress,
        )
    if source.identity == "row order":
        talk.warn(
            f"{source.name} has no ids: its rows can only be matched by their order; give --ids"
        )
    else:
        talk.note(f"ids from {source.info['ids_from']}")
    talk.note(f"wrote {written.path}: {written.n_rows} rows of {source.dim} columns")


@app.command("export")
def export_embeddings(
    context: typer.Context,
    embeddings: EmbeddingsArgument,
    out: Annotated[
        Path | None, typer.Argument(help="The file; its ending says the format."), WRITTEN
    ] = None,
    file_format: Annotated[
        ExportFormat | None,
        typer.Option("--as", help="Format, if the ending does not say it."),
    ] = None,
    to: WrittenOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Write one view in another program's format, block by block.

    Example: repalign store export run.h5::final run.npz
    """
    from repalign.store.exchange import export_store
    from repalign.store.open import open_embeddings

    talk, target = talk_of(context), _needed(out, to)
    source = open_embeddings(embeddings)
    with talk.progress("exporting") as on_progress:
        result = export_store(
            source, target, file_format=file_format, overwrite=overwrite, on_progress=on_progress
        )
    for warning in result.warnings:
        talk.warn(warning)
    ids = "" if result.ids_path is None else f", ids in {result.ids_path}"
    talk.note(f"wrote {result.path}: {result.n_rows} rows of {result.dim} columns{ids}")


def _needed(out: Path | None, to: Path | None) -> Path:
    """Return what is written, which was named behind the input or as an option."""
    target = _either(out, to)
    if target is None:
        raise typer.BadParameter("say what to write: behind the input, or with --output")
    return target


def _either(out: Path | None, to: Path | None) -> Path | None:
    if out is not None and to is not None:
        raise typer.BadParameter(f"got {out} and --output {to}; give one of the two")
    return to if out is None else out
