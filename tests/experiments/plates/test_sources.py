import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repalign.exceptions import InputError
from repalign.experiments.papers.deconfound import PROFILES, SIMULATED, find_plates
from repalign.experiments.papers.reports.deconfound import RXRX3
from repalign.experiments.plates.plated import CONTROL
from repalign.experiments.plates.profiles import read_profiles
from repalign.experiments.plates.rxrx3 import EMBEDDINGS, WELLS, read_rxrx3
from repalign.experiments.plates.simulated import N_PLATES, draw_plates

PUBLISHED = Path(__file__).parents[2] / "data" / "cell-painting"
GCT = """#1.3
{features}\t3\t1\t2
id\tcp\tA\tB\tC
Plate\tx\t1\t1\t2
{treatment}\tx\tDMSO\t7 nM bortezomib\tother
{rows}
"""


def write_gct(path: Path, rows: dict[str, tuple], treatment: str = "treatment") -> None:
    lines = "\n".join("\t".join(map(str, (name, "x", *values))) for name, values in rows.items())
    text = GCT.format(features=len(rows), treatment=treatment, rows=lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def test_profiles_of_several_files_have_the_features_that_all_share(tmp_path: Path) -> None:
    first, second = tmp_path / "a.gct", tmp_path / "b.gct.gz"
    write_gct(first, {"area": (1, 2, 3), "only": (0, 0, 0), "hue": (4, 5, 6)})
    write_gct(second, {"hue": (40, 50, 60), "area": (10, 20, 30)}, treatment="reatment")
    found = read_profiles([first, second])
    assert found.values.tolist() == [[1, 4], [2, 5], [10, 40], [20, 50]]
    assert found.perturbation.tolist() == [CONTROL, "bortezomib"] * 2
    assert found.plate.tolist() == ["1"] * 4
    assert find_plates(tmp_path).name == find_plates(first).name == PROFILES


def test_the_published_profiles_are_read() -> None:
    found = read_profiles([PUBLISHED / "profiles.gct.gz"])
    assert found.values.shape == (1200, 145)
    assert len(np.unique(found.plate)) == 20
    assert set(found.perturbation) == {CONTROL, "bortezomib"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#1.2\n", "'#1.2'"),
        ("#1.3\n1\t2\n", "GCT 1.3"),
        (GCT.format(features=1, treatment="dose", rows="a\tx\t1\t2\t3"), "labels treatment"),
        (GCT.format(features=1, treatment="treatment", rows="a\tx\t1\tbad\t3"), "bad"),
        (GCT.format(features=1, treatment="treatment", rows="a\tx\t1\t2"), "unequal length"),
    ],
)
def test_profiles_of_another_form_are_told(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.gct"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_profiles([path])


def test_wells_of_the_genes_stand_beside_empty_controls_of_their_experiments(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyarrow")
    wells = pd.DataFrame(
        {
            "well_id": list("abcdef"),
            "experiment_name": ["gene-1", "gene-1", "gene-1", "gene-2", "gene-2", "gene-1"],
            "plate": [1, 1, 2, 1, 1, 2],
            "gene": ["MTOR", "EMPTY_control", "SRC", "EMPTY_control", "OTHER", "EMPTY_control"],
            "treatment": [
                "guide_1",
                "EMPTY_control",
                "guide_4",
                "EMPTY_control",
                "g",
                "EMPTY_control",
            ],
            "SMILES": "",
        }
    )
    wells.to_csv(tmp_path / WELLS, index=False)
    rows = pd.DataFrame({"well_id": list("fedcba"), "feature_0": range(6), "feature_1": 1.0})
    rows.to_parquet(tmp_path / EMBEDDINGS)
    assert find_plates(tmp_path).name == RXRX3
    found = read_rxrx3(tmp_path)
    assert found.values[:, 0].tolist() == [5, 4, 3, 0]
    assert found.perturbation.tolist() == ["MTOR guide_1", CONTROL, "SRC guide_4", CONTROL]
    assert found.plate.tolist() == ["gene-1 1", "gene-1 1", "gene-1 2", "gene-1 2"]
    with pytest.raises(InputError, match=r"XYZ.* EMPTY_control"):
        read_rxrx3(tmp_path, ["XYZ"])


def test_a_folder_without_plates_is_refused_and_none_gives_simulated_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no plates"):
        find_plates(tmp_path)
    assert find_plates(None).name == SIMULATED


def test_plates_differ_in_their_light_and_thick_strokes_have_more_ink() -> None:
    images, is_thick, plate = draw_plates(0)
    assert images.shape == (1797, 32, 32)
    assert 0.45 < is_thick.mean() < 0.55
    light = np.array([images[plate == number, 0, 0].mean() for number in range(N_PLATES)])
    assert light.max() > light.min() + 20
    ink = images.mean(axis=(1, 2)) - images[:, 0, 0]
    assert ink[is_thick].mean() > 1.1 * ink[~is_thick].mean()
    again, _, _ = draw_plates(0)
    assert np.array_equal(images, again)
