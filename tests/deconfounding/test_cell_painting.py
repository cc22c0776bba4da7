"""Real profiles with plates: wells of clones under DMSO or bortezomib, in the layout GCT 1.3."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from repalign.conditions.settings import TransformSettings
from repalign.deconfounding.run import deconfound
from repalign.deconfounding.settings import BatchSettings

PROFILES = Path(__file__).parents[1] / "data" / "cell-painting" / "profiles.gct.gz"


def read_gct(path: Path) -> tuple[dict[str, list[str]], dict[str, np.ndarray]]:
    """Columns of wells by name: what was done to them, and their features."""
    with gzip.open(path, "rt") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    _, _, n_row_labels, n_column_labels = (int(number) for number in lines[1])
    first, split = 1 + n_row_labels, 3 + n_column_labels
    labels = {line[0]: line[first:] for line in lines[3:split]}
    return labels, {line[0]: np.array(line[first:], dtype=float) for line in lines[split:]}


def profiles() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    labels, features = read_gct(PROFILES)
    treated = np.char.find(np.array(labels["treatment"]), "bortezomib") >= 0
    columns = {"bortezomib": treated.astype(int), "plate": np.array(labels["Plate"])}
    return np.stack(list(features.values()), axis=1), columns


@pytest.mark.slow
def test_the_table_of_the_real_profiles() -> None:
    pytest.importorskip("lightgbm")
    values, columns = profiles()
    settings = BatchSettings(
        top_percent=(),
        transform=TransformSettings(conditions=("raw", "pca+ica"), components=30),
    )

    result = deconfound(values, columns, labels=["bortezomib"], batch="plate", settings=settings)

    frame = result.to_frame()
    auroc = frame[frame.measure == "AUROC"].set_index("condition")
    assert values.shape == (1200, 145)
    assert len(np.unique(columns["plate"])) == 20
    assert (auroc.n_folds == 5).all()
    # A weak effect beside strong plates: every condition is above its own null.
    assert (auroc.value > auroc["null"] + 0.05).all()
    batch = frame[frame.measure == "batch-accuracy"].set_index("condition")
    assert batch.value["raw"] > 10 * batch["null"]["raw"]
