"""Table 1 of the paper on the shipped pairs: extract every store, compare every pair."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repalign.comparison.settings import CompareSettings, preset
from repalign.core.device import threads_held
from repalign.experiments.table_one_pairs import (
    PAIRS,
    Extraction,
    StoredPair,
    extractions,
    paper_rows,
)

if TYPE_CHECKING:
    from repalign.comparison.results import CompareResult
    from repalign.engine.machine import Machine
    from repalign.extraction.settings import ExtractProgress

OnStage = Callable[[str, int, int], None]
Record = Mapping[str, Any]


@dataclass(frozen=True)
class TableOneSettings:
    """How many paragraphs the language models read, and how pairs are compared."""

    text_limit: int | None
    compare: CompareSettings


SMALL = TableOneSettings(250, CompareSettings(n_null=99))
FULL = TableOneSettings(None, preset("audit", maps=CompareSettings().maps))


@dataclass(frozen=True)
class PairOutcome:
    """Everything that was measured of one pair, and the paper's row next to it, if any."""

    pair: StoredPair
    result: "CompareResult"
    paper: Mapping[str, float] | None

    def record(self, name: str, split: str) -> Record | None:
        """Return the record of one map and split, None where it was not measured."""
        for record in self.result.to_records():
            if (record["map"], record["split"]) == (name, split):
                return record
        return None


@dataclass(frozen=True)
class TableOne:
    """The outcome of all pairs, with the settings and the time it took."""

    outcomes: tuple[PairOutcome, ...]
    settings: TableOneSettings
    extract_seconds: float
    compare_seconds: float

    def result(self) -> "CompareResult":
        """Return the comparison of all pairs as one."""
        first = self.outcomes[0].result
        parts = [outcome.result for outcome in self.outcomes]
        return replace(
            first,
            records=tuple(record for part in parts for record in part.records),
            pairs=tuple(report for part in parts for report in part.pairs),
            maps=tuple(maps for part in parts for maps in part.maps),
        )

    def to_records(self) -> list[dict[str, Any]]:
        """Return the rows of the CSV: those of ``compare``, and the paper's values behind."""
        rows = []
        for outcome in self.outcomes:
            for record in outcome.result.to_records():
                paper = outcome.paper if record["split"] == "in-sample" else None
                is_ica = record["map"] == "ica"
                rows.append(
                    record
                    | {
                        "pair": outcome.pair.title,
                        "paper_pair": outcome.pair.paper_row,
                        "paper_error": paper and paper.get(record["map"]),
                        "paper_efficiency": paper["efficiency"] if paper and is_ica else None,
                    }
                )
        return rows


def run_table_one(
    folder: Path,
    settings: TableOneSettings = SMALL,
    *,
    device: str = "auto",
    workers: int = 1,
    on_stage: OnStage | None = None,
) -> TableOne:
    """Extract the stores of all pairs into a folder and compare each pair.

    Stores that are there already, made with the same settings, are not made again. The pairs
    are shared out among ``workers`` processes.
    """
    from repalign.core.device import choose_device
    from repalign.engine.machine import Machine, ignore_stage
    from repalign.engine.opening import choose_engine

    say = on_stage or ignore_stage
    started = time.perf_counter()
    extract_stores(folder, settings.text_limit, device=device, on_stage=say)
    between = time.perf_counter()
    machine = Machine(choose_device(device), on_stage=say)
    with choose_engine("local", min(workers, len(PAIRS))) as engine:
        outcomes = engine.map(
            "pairs", compare_stored, PAIRS, machine, shared=lambda pair: (folder, settings.compare)
        )
    return TableOne(
        outcomes=tuple(outcomes),
        settings=settings,
        extract_seconds=between - started,
        compare_seconds=time.perf_counter() - between,
    )


def extract_stores(folder: Path, text_limit: int | None, *, device: str, on_stage: OnStage) -> None:
    """Extract the stores of all pairs; those that are there, of the same settings, are kept."""
    extract_all(extractions(text_limit), folder, device=device, on_stage=on_stage)


def extract_all(
    wanted: Sequence[Extraction], folder: Path, *, device: str, on_stage: OnStage
) -> None:
    """Extract stores into a folder; those that are there, of the same settings, are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    with threads_held(1):
        for number, extraction in enumerate(wanted, start=1):
            label = f"extract {extraction.store} ({number} of {len(wanted)})"
            _extract(extraction, folder, device, partial(on_stage, label))


def _extract(
    extraction: Extraction, folder: Path, device: str, on_progress: Callable[[int, int], None]
) -> None:
    from repalign.extraction.run import extract
    from repalign.extraction.settings import ExtractSettings
    from repalign.zoo.shipped import shipped_names, shipped_path

    def checkpoint(name: str) -> str:
        return str(shipped_path(name)) if name in shipped_names() else name

    def follow(progress: "ExtractProgress") -> None:
        on_progress(progress.samples_done, progress.samples_total)

    on_progress(0, 1)
    settings = ExtractSettings(
        model=checkpoint(extraction.model),
        data=extraction.data,
        output=folder / f"{extraction.store}.h5",
        limit=extraction.limit,
        pools=() if extraction.pool is None else (extraction.pool,),
        preprocess=extraction.preprocess and checkpoint(extraction.preprocess),
        layers=(extraction.layer,),
        tokens=extraction.tokens,
        with_ids=extraction.with_ids,
        device=device,
        # what is shipped needs no network, and must not look for one
        offline=extraction.model in shipped_names(),
    )
    extract(settings, on_progress=follow)


def compare_stored(
    machine: "Machine", pair: StoredPair, folder: Path, settings: CompareSettings
) -> PairOutcome:
    """Compare the two stores of a pair."""
    from repalign.comparison.run import compare
    from repalign.store.open import as_source

    paths = [folder / f"{name}.h5" for name in (pair.source, pair.target)]
    if pair.role == "unrelated":
        # stores of other inputs are refused, so the bare values are compared
        paths = [_export(path) for path in paths]
    sources = [replace(as_source(path), name=path.stem) for path in paths]
    result = compare(*sources, settings=settings, machine=machine)
    paper = None if pair.paper_row is None else paper_rows()[pair.paper_row]
    return PairOutcome(pair, result, paper)


def _export(path: Path) -> Path:
    from repalign.store.exchange import export_store
    from repalign.store.open import open_embeddings

    out = path.with_suffix(".npy")
    export_store(open_embeddings(path), out, overwrite=True)
    return out
