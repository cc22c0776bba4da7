"""Write embeddings in the layouts of other programs, in blocks."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from repalign.arguments import checked
from repalign.exceptions import InputError
from repalign.files import check_output, protecting, writing
from repalign.store.exchange.export_arrays import write_npy, write_npz, write_safetensors
from repalign.store.exchange.export_tables import write_csv, write_parquet
from repalign.store.foreign.formats import ExportFormat
from repalign.store.foreign.identifiers import bound_ids_text
from repalign.store.joining.index import POOLED, RowIndex, decode_ids
from repalign.store.sources.in_memory import Embeddings, as_source
from repalign.store.sources.opening import SIDECAR_SUFFIX
from repalign.store.sources.source import EmbeddingSource, fingerprint_of, values_root

OnProgress = Callable[[int, int], None]
WRITERS: dict[ExportFormat, Callable[[Path, EmbeddingSource, OnProgress], None]] = {
    "npy": write_npy,
    "npz": write_npz,
    "csv": write_csv,
    "parquet": write_parquet,
    "safetensors": write_safetensors,
}
WITHOUT_INDEX = {"npy", "safetensors"}


@dataclass(frozen=True)
class ExportResult:
    """What was written.

    Args:
        path: the file.
        file_format: its format.
        n_rows: number of rows.
        dim: number of columns.
        ids_path: the file of ids beside it, where the format holds none itself.
        warnings: what of the rows' identity the format does not keep.
    """

    path: Path
    file_format: ExportFormat
    n_rows: int
    dim: int
    ids_path: Path | None
    warnings: tuple[str, ...]


@checked
def export_store(
    source: Embeddings,
    out: str | Path,
    *,
    file_format: ExportFormat | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> ExportResult:
    """Write one view in a foreign format; the file appears when it is whole.

    npz, csv and parquet hold ids, token positions and hashes beside the values; npy and
    safetensors get their ids as lines of a file ``<name>.ids.txt``, which is found again when the
    embeddings are opened; its first line says to which values they belong, and that is checked.
    A pipe or device, ``-`` for standard output, gets no such file.

    Args:
        source: what to write: a path (``file::view``), an array, open embeddings, ….
        out: the file.
        file_format: by default the ending of ``out``.
        overwrite: replace existing files.
        on_progress: called with the rows written and their total.

    Raises:
        InputError: unknown format, or a file exists.
        MissingExtraError: parquet without pyarrow.

    Example:
        >>> import numpy as np, repalign
        >>> info = repalign.write_store("to-export.h5", np.eye(2), ids=["cat", "dog"])
        >>> export_store("to-export.h5", "exported.npz").n_rows
        2
        >>> with np.load("exported.npz") as arrays:
        ...     sorted(arrays)
        ['embedding', 'ids']
    """
    source, out = as_source(source), Path(out)
    chosen = _choose_format(out, file_format)
    ids_path, lines = None, ""
    is_file = check_output(out) is not None
    if chosen in WITHOUT_INDEX and source.index.ids is not None and is_file:
        ids_path = out.with_name(out.stem + SIDECAR_SUFFIX)
        lines = _id_lines(source)
    if not overwrite:
        check_output(out, overwrite=False)
        if ids_path is not None and not _holds(ids_path, lines):
            check_output(ids_path, overwrite=False)
    report = on_progress or (lambda done, total: None)
    with protecting([] if source.path is None else [source.path]):
        if ids_path is not None:  # before the work: it may be refused
            check_output(ids_path)
        with writing(out) as whole:
            WRITERS[chosen](whole, source, report)
        if ids_path is not None:
            with writing(ids_path) as whole:
                whole.write_text(lines, encoding="utf-8")
    return ExportResult(
        path=out,
        file_format=chosen,
        n_rows=source.n_rows,
        dim=source.dim,
        ids_path=ids_path,
        warnings=_lost(source.index, chosen, has_ids_beside=is_file),
    )


def _choose_format(out: Path, file_format: ExportFormat | None) -> ExportFormat:
    wanted = file_format or out.suffix.removeprefix(".").lower()
    for known in get_args(ExportFormat):
        if wanted == known:
            return known
    raise InputError(
        f"{out}: the format {wanted!r} is not written; choose {', '.join(get_args(ExportFormat))}"
    )


def _holds(path: Path, text: str) -> bool:
    """Tell whether a file has just this text: exports of one set can share their ids."""
    return path.is_file() and path.read_bytes() == text.encode()


def _id_lines(source: EmbeddingSource) -> str:
    """Return the text of the file of ids, which is bound to the values."""
    assert source.index.ids is not None, "called only where there are ids"
    ids = decode_ids(source.index.ids)
    broken = next((name for name in ids if "\n" in name or "\r" in name), None)
    if broken is not None:
        raise InputError(
            f"the id {broken!r} has a line break, which a file of lines cannot hold; export to "
            "npz or parquet"
        )
    return bound_ids_text(ids, fingerprint_of(source.rows, values_root(source.rows)))


def _lost(index: RowIndex, file_format: ExportFormat, *, has_ids_beside: bool) -> tuple[str, ...]:
    if file_format not in WITHOUT_INDEX:
        return ()
    lost = []
    if index.ids is not None and not has_ids_beside:
        lost.append("ids")
    if (index.token != POOLED).any():
        lost.append("token positions")
    if index.sample_sha is not None:
        lost.append("input hashes")
    if not lost:
        return ()
    return (f"{file_format} does not keep {' and '.join(lost)}; npz, csv and parquet do",)
