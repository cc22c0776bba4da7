import numpy as np
import pytest

from repalign.simulation.stretch import bilipschitz, term


def test_a_rotation_keeps_distances() -> None:
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 3)))[0]
    found = bilipschitz(turn[None], np.random.default_rng(1))
    assert found.exact == pytest.approx([1.0])
    assert found.sampled == pytest.approx([1.0])
    assert term(found.exact) == pytest.approx([0.0], abs=1e-6)


def test_the_worst_direction_decides_whether_it_is_longer_or_shorter() -> None:
    jacobians = np.stack([np.diag([1.0, 3.0]), np.diag([0.25, 2.0])])
    found = bilipschitz(jacobians, np.random.default_rng(0), n_directions=2000)
    assert found.exact == pytest.approx([3.0, 4.0])
    # the shortest is met only by directions that miss the other axis
    assert found.sampled == pytest.approx([3.0, 4.0], rel=0.01)
    assert np.all(found.sampled <= found.exact)
    assert term(found.exact) == pytest.approx(np.sqrt([8.0, 15.0]))


def test_a_flat_direction_has_no_bound() -> None:
    found = bilipschitz(np.diag([1.0, 0.0])[None], np.random.default_rng(0))
    assert np.isinf(found.exact[0])
    assert np.isfinite(found.sampled[0])
