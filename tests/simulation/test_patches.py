import numpy as np
import pytest

from repalign.exceptions import InputError
from repalign.simulation.fitting import Budget
from repalign.simulation.patches import PatchCoder, PatchPairs, patch_side, train_patches


def test_patches_are_squares_of_their_own_half() -> None:
    # grey levels tell the row of a pixel
    images = np.broadcast_to(np.arange(28, dtype=np.uint8)[:, None], (5, 28, 28))
    pairs = PatchPairs.draw(images, np.repeat(np.arange(5), 40), np.random.default_rng(0))
    assert pairs.top.shape == pairs.bottom.shape == (200, 12 * 12)
    rows = [(np.rint((side + 1) * 127.5)) for side in (pairs.top, pairs.bottom)]
    assert (rows[0].min(), rows[0].max()) == (0, 13)
    assert (rows[1].min(), rows[1].max()) == (14, 27)
    steps = np.diff(rows[0].reshape(200, 12, 12), axis=1)
    assert np.all(steps == 1)


def test_images_of_odd_height_keep_their_halves_apart() -> None:
    images = np.broadcast_to(np.arange(15, dtype=np.uint8)[:, None], (1, 15, 15))
    pairs = PatchPairs.draw(images, np.zeros(100, dtype=np.int64), np.random.default_rng(0))
    assert patch_side(15, 15) == 7
    assert np.rint((pairs.top.max() + 1) * 127.5) == 6
    assert np.rint((pairs.bottom.min() + 1) * 127.5) == 8


def test_images_that_are_too_small_are_refused() -> None:
    with pytest.raises(InputError, match=r"5 × 5.* 8 × 8"):
        patch_side(5, 5)


def test_training_learns_which_patches_belong_together() -> None:
    # the two halves of an image share what they show, one of four levels
    levels = np.random.default_rng(0).integers(4, size=400).astype(np.uint8) * 80
    images = np.broadcast_to(levels[:, None, None], (400, 8, 8))
    judged = PatchPairs.draw(images, np.arange(400), np.random.default_rng(1))
    coder, budget = PatchCoder(16, 2), Budget(150, 64, 1e-2)
    run = train_patches(images, judged, coder, budget, seed=0, at=(0, 150))
    again = train_patches(images, judged, coder, budget, seed=0, at=(0, 150))
    # a quarter of the batch shows the same, which no code tells apart
    assert run.loss < np.log(64 / 4) + 0.1
    assert [codes[0].shape for codes in run.codes.values()] == [(400, 2), (400, 2)]
    np.testing.assert_array_equal(run.codes[150][0], again.codes[150][0])
    assert np.abs(run.codes[150][0] - run.codes[0][0]).max() > 0.1
