import tracemalloc

import numpy as np

from repalign.core.cosine_bounds import build_unit_rows
from repalign.core.rows import ArrayRows


def test_unit_rows_are_made_in_blocks_of_a_few_mebibytes() -> None:
    x = np.random.default_rng(0).standard_normal((8192, 256)).astype(np.float32)
    centre = x.mean(0).astype(np.float64)
    radii = np.linalg.norm(x - centre, axis=1)
    rows, order = ArrayRows(x), np.argsort(-radii)
    tracemalloc.start()
    try:
        unit = build_unit_rows(rows, order, centre, radii, None)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - held < 16 * 2**20
    expected = (x[order] - centre) / radii[order][:, None]
    assert np.all(np.linalg.norm(unit.rounded - expected, axis=1) <= unit.error)
