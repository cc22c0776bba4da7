import numpy as np
import torch

from repalign.data.open_data import open_builtin
from repalign.models.load import choose_image_inputs, load_encoder
from repalign.zoo.digits import draw_digits, load_digits
from repalign.zoo.shipped import shipped_path
from repalign.zoo.task import data_generator


def test_training_sees_the_pixels_that_extraction_makes() -> None:
    images = load_digits().images
    digit = open_builtin("digits").read(7).value
    for name in ("resnet-seed0", "mae-transformers-seed0", "mae-timm-seed1"):
        preprocess = choose_image_inputs(load_encoder(str(shipped_path(name))))
        # values up to 1, so a few units of the last place of float32
        np.testing.assert_allclose(preprocess(digit), images[7].numpy(), atol=3e-7)


def test_held_out_digits_are_the_last_and_every_class_is_among_them() -> None:
    digits = load_digits()
    assert (len(digits.images), len(digits.held_out_images)) == (1437, 360)
    assert sorted(set(digits.held_out_labels.tolist())) == list(range(10))


def test_a_step_draws_the_same_images_every_time_and_each_is_changed_a_little() -> None:
    digits = load_digits()
    first, labels = draw_digits(digits, 16, data_generator(0, 5))
    again, _ = draw_digits(digits, 16, data_generator(0, 5))
    other, _ = draw_digits(digits, 16, data_generator(0, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == (16, 1, 32, 32)
    rows = torch.randint(len(digits.images), (16,), generator=data_generator(0, 5))
    assert torch.equal(labels, digits.labels[rows])
    still = digits.images[rows]
    change = (first - still).square().mean() / still.var()
    assert 0.01 < change < 1.0
