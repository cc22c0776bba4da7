import numpy as np
import pytest

from repalign.core.row_errors import ica_efficiency


@pytest.mark.parametrize(
    ("permutation", "rigid", "ica", "percent"),
    [
        (0.219, 0.150, 0.202, 24.64),  # Pythia-160M
        (0.197, 0.109, 0.145, 59.09),  # MAE
        (0.218, 0.104, 0.175, 37.72),  # CheXpert
        (0.382, 0.206, 0.312, 39.77),  # ResNet-18
    ],
)
def test_the_rows_of_the_papers_table_1(permutation, rigid, ica, percent) -> None:
    efficiency = ica_efficiency(np.array(permutation), np.array(rigid), np.array(ica))
    assert round(100 * float(efficiency), 2) == percent


def test_efficiency_is_undefined_where_the_rigid_map_gains_nothing() -> None:
    permutation = np.array([1e-16, 0.5, 0.5, 0.0])
    rigid = np.array([2e-17, 0.4999, 0.6, 0.0])
    efficiency = ica_efficiency(permutation, rigid, np.zeros(4))
    assert np.isfinite(efficiency).tolist() == [False, False, False, False]
