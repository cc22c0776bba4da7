import numpy as np
import pytest

from repalign.data.builtin_factors import builtin_columns, stroke_moments
from repalign.data.open_data import open_builtin
from repalign.exceptions import InputError


def test_the_digits_have_a_label_and_measures_by_the_ids_of_extract() -> None:
    table = builtin_columns("builtin:digits")
    assert list(table.columns) == ["digit", "ink", "width", "height", "slant"]
    assert table.n_rows == 1797
    assert table.ids is not None
    source = open_builtin("digits")
    assert table.ids[7] == source.read(7).id
    assert table.columns["digit"][:10].tolist() == list(range(10))


def test_strokes_are_measured_as_drawn() -> None:
    upright, leaning = np.zeros((2, 8, 8))
    upright[1:7, 3] = 16
    for row in range(6):
        leaning[6 - row, 1 + row] = 16
    found = stroke_moments(np.stack([upright, leaning]))
    assert found["ink"] == pytest.approx(6 * 16 / 64)
    assert found["width"] == pytest.approx([0, np.std(range(6))])
    assert found["height"] == pytest.approx(np.std(range(6)))
    assert found["slant"] == pytest.approx([0, 1])


def test_data_without_factors_are_refused() -> None:
    with pytest.raises(InputError, match=r"builtin:shakespeare.* builtin:d"):
        builtin_columns("builtin:shakespeare")
