"""The files of a reader that a page takes for granted, small; the README takes none."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import repalign

DATA = Path(__file__).parent / "data"


def store(path: Path, values: np.ndarray, ids: list[str], *, view: str | None = None) -> None:
    repalign.import_store(repalign.as_source(values, ids=ids), path, view=view)


def corpus(folder: Path) -> None:
    """Paragraphs long enough to have eight tokens each."""
    rng = np.random.default_rng(0)
    words = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "again"]
    lines = [" ".join(rng.permutation(words)) for _ in range(60)]
    (folder / "corpus.txt").write_text("\n".join(lines) + "\n")
    rows = [f'{{"text": "{line}"}}' for line in lines]
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n")


def factors(folder: Path) -> None:
    """Latents, as a store and as an array, and the factors behind them."""
    rng = np.random.default_rng(0)
    true = {"shape": rng.integers(0, 3, 150), "x": rng.random(150), "y": rng.random(150)}
    values = np.stack(list(true.values()), axis=1)
    latents = values @ rng.standard_normal((3, 4)) + 0.3 * rng.standard_normal((150, 4))
    ids = [f"row-{number}" for number in range(150)]
    np.save(folder / "latents.npy", latents)
    store(folder / "latents.h5", latents, ids)
    store(folder / "new.h5", latents[:50], ids[:50])
    pd.DataFrame({"id": ids, **true}).to_csv(folder / "factors.csv", index=False)
    np.savez(folder / "factors.npz", **true)


def plates(folder: Path) -> None:
    """Cells on plates, some perturbed; and the first of the published profiles."""
    rng = np.random.default_rng(0)
    plate, gene = np.repeat(np.arange(6), 60), np.tile(["DMSO", "TP53", "KRAS"], 120)
    cells = rng.standard_normal((360, 8)) + plate[:, None] + 2 * (gene == "TP53")[:, None]
    ids = [f"well-{number}" for number in range(360)]
    store(folder / "cells.h5", cells, ids)
    table = {"id": ids, "plate": plate, "gene": gene, "perturbed": (gene != "DMSO").astype(int)}
    pd.DataFrame(table).to_csv(folder / "wells.csv", index=False)
    own = pd.DataFrame(cells, columns=[f"f{number}" for number in range(8)]).assign(**table)
    own.assign(shape=rng.integers(0, 3, 360)).to_csv(folder / "cells.csv", index=False)
    observations = pd.DataFrame(table).drop(columns="id").set_axis(ids)
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(cells, obs=observations).write_h5ad(folder / "cells.h5ad")
    with gzip.open(DATA / "cell-painting" / "profiles.gct.gz", "rt") as file:
        version, _, *lines = file.read().splitlines()
    fewer = ["\t".join(line.split("\t")[:301]) for line in lines]
    size = f"{len(fewer) - 5}\t300\t0\t4"
    (folder / "profiles.gct").write_text("\n".join([version, size, *fewer]) + "\n")


def embeddings(folder: Path) -> None:
    """Rows of other programs, with ids beside them."""
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    rows = rng.laplace(size=(300, 6))
    ids = [f"input-{number}" for number in range(300)]
    np.save(folder / "emb.npy", rows)
    (folder / "ids.txt").write_text("\n".join(ids) + "\n")
    np.save(folder / "other.npy", rows @ rng.standard_normal((6, 6)))
    (folder / "other.ids.txt").write_text("\n".join(ids) + "\n")
    store(folder / "run.h5", rows, ids, view="final")
    anndata.AnnData(rows, obs=pd.DataFrame(index=ids)).write_h5ad(folder / "features.h5ad")


def sounds(folder: Path) -> None:
    """Recordings, and tiny models of sounds."""
    from tests import tiny_models as tiny

    tiny.save_sound_model(folder / "tiny-hubert", "hubert")
    tiny.save_sound_model(folder / "tiny-whisper", "whisper")
    tiny.save_sounds(folder / "recordings", (0.4,) * 80)


def three_stores(folder: Path) -> None:
    """Three models of the same rows."""
    rng = np.random.default_rng(0)
    shared, ids = rng.laplace(size=(120, 4)), [f"row-{number}" for number in range(120)]
    for name in "abc":
        values = shared @ rng.standard_normal((4, 4)) + 0.1 * rng.standard_normal((120, 4))
        store(folder / f"{name}.h5", values, ids)


FILES = {
    "docs/cluster.md": (corpus, three_stores),
    "docs/disentangle.md": (factors, plates),
    "docs/embeddings.md": (embeddings,),
    "docs/extract.md": (corpus, sounds),
}
