"""What was asked for is in the result: all of it in the JSON, what moves numbers in the CSV too."""

import re
from pathlib import Path

import numpy as np
import pytest

from repalign.comparison.results import COLUMNS as COMPARE
from repalign.comparison.results import OWN_COLUMNS
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.deconfounding.results import COLUMNS as DECONFOUND
from repalign.deconfounding.settings import BatchSettings
from repalign.disentanglement.results import COLUMNS as DISENTANGLE
from repalign.disentanglement.settings import FactorSettings
from repalign.options import options_of, recorded_columns, recorded_values

DOCS = Path(__file__).parents[2] / "docs"
STUDIES = {
    "compare": (CompareSettings, (*COMPARE, *OWN_COLUMNS), "results.md"),
    "disentangle": (FactorSettings, DISENTANGLE, "disentangle.md"),
    "deconfound": (BatchSettings, DECONFOUND, "disentangle.md"),
}
each_study = pytest.mark.parametrize("study", STUDIES)
# Options of a comparison without a column of their name, and the column that tells what came of
# them; nothing where only the JSON does.
TOLD_BY = {
    "maps": "map",
    "measures": "measure",
    "both_directions": "source",
    "n_folds": "n_folds",
    "n_null": "n_null",
    "beyond_groups": "p_beyond_groups",
    "n_rotations": "n_rotations",
    "n_halves": "n_halves",
    "starts": "source_starts",
    "measure_rows": "n_rows",
    "layers": "source_view",
    "within": "target_view",
    "max_pairs": None,
    "seed": "seed",
    "ica.seed": "source_ica_seed",
    "ica.start": "source_ica_seed",
    "ica.max_rank": "source_rank",
    "ica.tolerance": "ica_gradient_rms",
    "ica.sklearn_tolerance": "ica_gradient_rms",
    "ica.n_fit_rows": None,
    "map_rows": None,
}


@each_study
def test_every_recorded_option_is_a_column_that_is_explained(study: str) -> None:
    settings, columns, page = STUDIES[study]
    text = (DOCS / page).read_text(encoding="utf-8")
    assert recorded_columns(settings)
    assert set(recorded_columns(settings)) <= set(columns)
    assert not [
        name for name in recorded_columns(settings) if not re.search(rf"[`, ]{name}[`,]", text)
    ]


@pytest.mark.parametrize("study", ["disentangle", "deconfound"])
def test_the_page_lists_the_columns_in_their_order(study: str) -> None:
    _, columns, page = STUDIES[study]
    assert f"`{', '.join(columns)}`" in (DOCS / page).read_text(encoding="utf-8")


def test_no_option_of_a_comparison_is_without_a_column_unawares() -> None:
    options = options_of(CompareSettings)
    silent = {".".join(each.path) for each in options if not each.declared.recorded}
    assert silent == set(TOLD_BY)
    assert {name for name in TOLD_BY.values() if name} <= {*COMPARE, *OWN_COLUMNS}


def test_the_json_holds_every_option_and_the_csv_those_recorded() -> None:
    rows = np.random.default_rng(0).laplace(size=(60, 3))
    settings = CompareSettings(
        maps=("rigid", "ica"), n_null=0, n_rotations=0, n_halves=0, starts=1,
        permutation_cost="correlation", on_mismatch="intersect", held_out=0.3,
    )  # fmt: skip
    result = compare(rows, rows @ np.diag([1.0, -1, 1]), settings=settings)
    told = result.to_dict()["settings"]
    for each in options_of(CompareSettings):
        value = told
        for name in each.path:
            assert name in value, each.path
            value = value[name]
    by_map = {row["map"]: row for row in result.to_records() if row["split"] == "in-sample"}
    asked = recorded_values(settings)
    assert {name: by_map["ica"][name] for name in asked} == asked
    assert {name for name in asked if by_map["rigid"][name] is None} == {
        name for name in asked if name.startswith("ica_")
    }
