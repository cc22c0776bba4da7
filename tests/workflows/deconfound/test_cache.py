"""Finished folds in a file."""

import os
from pathlib import Path

import pytest

from repalign.exceptions import InputError
from repalign.files import protecting
from repalign.workflows.deconfound.cache import FoldCache


def test_what_is_put_is_there_again(tmp_path: Path) -> None:
    FoldCache(tmp_path / "folds").put("a", {"measures": [1]})
    FoldCache(tmp_path / "folds").put("b", {"measures": [2]})
    assert FoldCache(tmp_path / "folds").get("a") == {"measures": [1]}
    assert FoldCache(tmp_path / "folds").get("c") is None


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "folds"
    for key in ("a", "b"):
        FoldCache(path).put(key, {"measures": []})
    path.write_bytes(path.read_bytes()[:-20])
    FoldCache(path).put("c", {"measures": []})
    kept = FoldCache(path)
    assert [kept.get(key) is not None for key in "abc"] == [True, False, True]


def test_pipes_and_devices_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe, expected a file"):
        FoldCache(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a device, expected a file"):
        FoldCache("/dev/null")


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no directory"):
        FoldCache(tmp_path / "missing" / "folds")
    (tmp_path / "table.csv").touch()
    with protecting([tmp_path / "table.csv"]), pytest.raises(InputError, match="is the input"):
        FoldCache(tmp_path / "table.csv")
