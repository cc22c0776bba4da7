from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from repalign.models.capture import Batch, encode, make_views
from repalign.models.load import load_encoder
from repalign.zoo.masked_autoencoder import MaskedAutoencoderTask, sinusoidal_positions
from repalign.zoo.recipe import RECIPES


def test_both_formats_hold_the_same_encoder(tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        task = MaskedAutoencoderTask(RECIPES["mae-transformers"])
        images = torch.randn(3, 1, 32, 32)
    hidden = {}
    for form in ("transformers", "timm"):
        folder = tmp_path / f"mae-{form}"
        folder.mkdir()
        task.recipe = replace(task.recipe, format=form)
        task.save(folder)
        model = load_encoder(str(folder))
        views = [replace(view, prefix=0) for view in make_views(model, (), ("token",))]
        hidden[form] = encode(model, views, Batch({"pixel_values": images}))["final"]
    assert hidden["timm"].shape == (3 * 65, 48)
    torch.testing.assert_close(hidden["timm"], hidden["transformers"], atol=2e-5, rtol=0)


def test_positions_are_distinct_and_of_one_length() -> None:
    table = sinusoidal_positions(8, 48)
    assert table.shape == (64, 48)
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), np.sqrt(24))
    gaps = np.linalg.norm(table[:, None] - table[None], axis=2) + np.eye(64)
    assert gaps.min() > 0.5
    # the first half tells the column, the second the row
    np.testing.assert_array_equal(table[3, :24], table[8 + 3, :24])
    np.testing.assert_array_equal(table[8, 24:], table[8 + 3, 24:])
