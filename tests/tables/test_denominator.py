"""Errors over the RMS radius in tables, by `--denominator rms`."""

import numpy as np
import pytest

import repalign
from repalign.tables.table import short_number


@pytest.fixture(scope="module")
def result() -> repalign.CompareResult:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 3))
    y = x @ rng.standard_normal((3, 3)) + rng.standard_normal((200, 3))
    return repalign.compare(x, y, maps=["mean", "rigid"], denominator="rms", null=9)


def test_the_table_shows_errors_and_nulls_over_the_radius(result: repalign.CompareResult) -> None:
    lines = result.table().splitlines()
    (row,) = (line for line in lines if line.startswith("held-out"))
    (null,) = (line for line in lines[lines.index(row) :][:4] if line.strip().startswith("null"))
    by_map = {r.map: r for r in result.records if r.split == "held-out"}
    assert row.split()[-1] == short_number(by_map["rigid"].error_over_rms_radius)
    radii = by_map["rigid"].diameter / by_map["rigid"].rms_radius
    assert null.split()[-1] == short_number(by_map["rigid"].null * radii)
    assert "RMS radius" in result.table()
    assert "given this diameter" not in result.table()


def test_the_mean_has_no_interval_there(result: repalign.CompareResult) -> None:
    for record in result.records:
        assert (record.rms_low is None) == (record.map == "mean")
        assert record.ci_low is not None
