import errno
import resource
from pathlib import Path

import numpy as np
import pytest

from repalign.exceptions import StoreError
from repalign.store import open_store, write_store


def limited(monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (n_bytes, n_bytes))


def test_a_limit_on_the_size_of_files_is_told_before_hdf5_meets_it(tmp_path, monkeypatch) -> None:
    limited(monkeypatch, 2**12)
    with pytest.raises(StoreError, match=f"Errno {errno.EFBIG}.* 4 KiB") as refusal:
        write_store(tmp_path / "a.h5", {"x": np.ones((9, 2))}, spec={})
    assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_a_limit_that_suffices_stops_nothing(tmp_path: Path, monkeypatch) -> None:
    limited(monkeypatch, 2**20)
    write_store(tmp_path / "a.h5", {"x": np.ones((9, 2))}, spec={})
    with open_store(tmp_path / "a.h5") as store:
        assert len(store) == 9
