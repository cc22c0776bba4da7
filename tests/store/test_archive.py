"""Stores written by versions of the format: this one is read, those never released are refused.

The files in tests/data/stores are never written again.
"""

from pathlib import Path

import numpy as np
import pytest

from repalign.exceptions import StoreError
from repalign.store import open_store, verify_store
from repalign.store.index import RowIndex

ARCHIVE = Path(__file__).parents[1] / "data" / "stores"


def test_the_second_version_reads() -> None:
    row = np.arange(70)
    with open_store(ARCHIVE / "v2.h5") as store:
        assert store.info.format_version == 2
        assert store.info.licence == "CC0-1.0"
        assert store.spec == {"model": {"id": "tiny", "layer": "final"}, "seed": 7}
        assert list(store.views) == ["final", "layer-2.mean"]
        final, mean = store.view("final"), store.view("layer-2.mean")
        assert np.array_equal(final.read(0, 70), row[:, None] + np.arange(3) / 8)
        assert np.array_equal(mean.read(0, 70), row[:, None] * np.arange(1, 3))
        expected = RowIndex(
            sample=row[::-1],
            token=row % 5 - 1,
            sample_sha=(row[:, None] + np.arange(16)).astype(np.uint8),
            ids=np.array([f"scan-{i}é" for i in row]),
        )
        np.testing.assert_equal(store.index.slice(0, 70).columns, expected.columns)
        assert store.fingerprint == FINGERPRINT
    assert verify_store(ARCHIVE / "v2.h5").problems == ()


def test_the_first_version_is_refused() -> None:
    with pytest.raises(StoreError, match=r"v1\.h5: .* 1, .* extract"):
        open_store(ARCHIVE / "v1.h5")


FINGERPRINT = "3ad51da267b56bd0945307e3b331afc63c7e9e11b8aa2606d24db6d5a86e76b9"
