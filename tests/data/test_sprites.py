import hashlib

import numpy as np
import pytest

from repalign.data.sprites import LEVELS, draw_sprites, sample_sprites
from repalign.exceptions import InputError


def one(**levels: int) -> np.ndarray:
    codes = np.array([[levels.get(name, 0) for name in LEVELS]])
    return draw_sprites(codes)[0].astype(float)


def test_pictures_are_deterministic_and_of_the_stated_form() -> None:
    first, again, other = (sample_sprites(20, seed=seed) for seed in (0, 0, 1))
    assert first.images.shape == (20, 64, 64, 3)
    assert first.images.dtype == np.uint8
    assert first.images.tobytes() == again.images.tobytes()
    assert first.images.tobytes() != other.images.tobytes()
    assert list(first.factors) == list(LEVELS)
    assert first.factors["x"].max() < LEVELS["x"]


def test_every_level_of_every_factor_changes_the_picture() -> None:
    middle = {"shape": 2, "scale": 3, "orientation": 3, "x": 16, "y": 16, "colour": 2}
    for name, levels in LEVELS.items():
        pictures = {
            hashlib.sha256(one(**{**middle, name: level}).tobytes()).hexdigest()
            for level in range(levels)
        }
        assert len(pictures) == levels, name


def test_position_moves_the_centre_of_mass_along_its_axis_only() -> None:
    def centre(picture: np.ndarray) -> np.ndarray:
        weight = picture.sum(axis=2)
        rows, columns = np.indices(weight.shape)
        return np.array([(weight * columns).sum(), (weight * rows).sum()]) / weight.sum()

    start = centre(one(shape=1, x=4, y=9))
    right, below = centre(one(shape=1, x=20, y=9)), centre(one(shape=1, x=4, y=25))
    step = 16 * 2 * 0.55 / 31 * 32
    assert right - start == pytest.approx([step, 0], abs=0.05)
    assert below - start == pytest.approx([0, step], abs=0.05)


def test_area_grows_with_scale_and_stays_under_rotation() -> None:
    for shape in range(3):
        areas = [
            one(shape=shape, scale=scale, x=16, y=16)[..., 0].sum() / 255 for scale in range(6)
        ]
        assert np.all(np.diff(areas) > 0)
        # Area goes with the square of the width, up to the antialiased edge.
        assert areas[-1] / areas[0] == pytest.approx(4, rel=0.06)
        turned = one(shape=shape, scale=5, orientation=7, x=16, y=16)[..., 0].sum() / 255
        assert turned == pytest.approx(areas[-1], rel=0.03)


def test_a_square_repeats_after_a_quarter_turn_and_a_heart_does_not() -> None:
    square = [one(shape=0, orientation=o, x=16, y=16) for o in (3, 13)]
    heart = [one(shape=2, orientation=o, x=16, y=16) for o in (3, 13)]
    assert np.abs(square[0] - square[1]).max() <= 1
    assert np.abs(heart[0] - heart[1]).max() > 100


def test_colours_are_saturated_and_distinct() -> None:
    brightest = [one(x=16, y=16, colour=level).max(axis=(0, 1)) for level in range(8)]
    assert len({tuple(colour) for colour in brightest}) == 8
    assert all(colour.max() == 255 and colour.min() == 0 for colour in brightest)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((2, 5), dtype=int), r"\(2, 5\).* 6 columns"),
        (np.array([[0, 0, 0, 0, 0, 0], [0, 6, 0, 0, 0, 0]]), "scale .*1.* 6"),
        (np.array([[-1, 0, 0, 0, 0, 0]]), "shape .*0.* -1.* 2"),
    ],
)
def test_levels_that_do_not_exist_are_refused(codes: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw_sprites(codes)


def test_no_pictures_are_refused() -> None:
    with pytest.raises(InputError, match="0 pictures"):
        sample_sprites(0, seed=0)
