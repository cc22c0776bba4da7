import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from repalign.engine.machine import Machine
from repalign.experiments.papers.deconfound import (
    EXPERIMENT,
    _measured,
    cases,
    find_plates,
    measure,
)
from repalign.experiments.papers.reports.deconfound import (
    AUROC,
    BATCH,
    DIFFERENCE,
    PERMUTED,
    RXRX3,
    SPARSITY,
    TITLES,
    sentences,
)
from repalign.experiments.reproduce.experiment import Measured, Outcome, Work
from repalign.experiments.reproduce.given_data import GivenData
from repalign.experiments.reproduce.results import Reproduction


def write_profiles(path: Path) -> None:
    """A drug that moves one feature by a little, and plates that move all of them."""
    rng = np.random.default_rng(0)
    plate, treated = np.repeat(np.arange(5), 60), np.tile([0, 1], 150)
    values = rng.standard_normal((300, 4)) + 0.7 * rng.standard_normal((5, 4))[plate]
    values[:, 1] += 2 * treated
    wells = ["bortezomib" if each else "DMSO" for each in treated]
    lines = [
        ["#1.3"], ["4", "300", "0", "2"], ["id", *map(str, range(300))],
        ["Plate", *map(str, plate)], ["treatment", *wells],
        *([f"feature {j}", *map(str, values[:, j])] for j in range(4)),
    ]  # fmt: skip
    path.write_text("\n".join("\t".join(line) for line in lines) + "\n")


def test_a_planted_drug_is_told_across_plates_and_permuted_labels_are_not(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    write_profiles(tmp_path / "planted.gct")
    case = replace(cases((25,))[0], n_permuted=1)
    work = Work(tmp_path, Machine(), find_plates(tmp_path))
    found = {each.measure: each.value for each in measure(case, 0, work)}
    assert found[AUROC] > 0.75
    assert found[AUROC] > found[PERMUTED] + 0.15
    assert found[f"{DIFFERENCE} 25 %"] > 0.1
    assert found[BATCH] > 0.3  # of five plates


def test_guides_are_averaged_by_gene_before_genes_are() -> None:
    def record(label: str, value: float) -> dict:
        return {"label": f"perturbation={label}", "measure": "AUROC", "value": value}

    records = [record("MTOR guide_1", 0.6), record("MTOR guide_2", 0.8), record("SRC guide_1", 0.5)]
    found = {each.measure: each.value for each in _measured(records)}
    assert found == pytest.approx({AUROC: 0.6, f"{AUROC} MTOR": 0.7, f"{AUROC} SRC": 0.5})


def result(data: str) -> Reproduction:
    def outcome(case, seed: int) -> Outcome:
        value = 0.7 if case.condition == "pca+ica" else 0.6 + seed / 10
        values = {AUROC: value, SPARSITY: value - 0.5, PERMUTED: 0.5, BATCH: 0.9}
        return Outcome(case, seed, tuple(Measured(*each) for each in values.items()), 0.0)

    made = tuple(outcome(case, seed) for seed in range(3) for case in cases((10, 25)))
    return Reproduction(EXPERIMENT, "small", (0, 1, 2), made, GivenData(data))


def test_the_order_is_counted_seed_by_seed() -> None:
    auroc, sparsity, controls = sentences(result("own"))
    assert "base 0.700, PCA 0.700, PCA + ICA 0.700, PCA + rotation 0.700" in auroc
    assert "base in 1, PCA in 1, PCA + rotation in 1 of 3" in auroc
    assert "base 0.200" in sparsity
    assert re.search(r"AUROC\b.* 0\.500\b.* 0\.700\b", controls)


def test_the_paper_stands_beside_rxrx3_alone() -> None:
    base, ica = TITLES["raw"], TITLES["pca+ica"]
    assert result("own").find(base, AUROC).published is None
    told = result(RXRX3)
    assert told.find(base, AUROC).published == pytest.approx(0.690, abs=5e-4)
    assert told.find(ica, AUROC).published == pytest.approx(0.7325, abs=5e-4)
