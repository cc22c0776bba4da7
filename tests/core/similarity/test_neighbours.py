import numpy as np

from repalign.core.neighbours import Neighbours


def test_nearer_rows_come_before_those_among_which_the_draw_decides() -> None:
    values = np.array([[0.0], [1.0], [-1.0], [2.0], [-2.0], [9.0]])
    drawn = set()
    for seed in range(20):
        nearest = Neighbours(values, (seed,)).nearest(3, 2**20)[0].tolist()
        assert set(nearest[:2]) == {1, 2}
        drawn.add(nearest[2])
    assert drawn == {3, 4}
