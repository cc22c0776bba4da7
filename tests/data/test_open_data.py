"""Which data a name stands for, and what is refused before anything is opened."""

import os
from pathlib import Path

import pytest

from repalign.data.open_data import open_data
from repalign.data.read_options import ReadOptions
from repalign.exceptions import InputError


@pytest.mark.parametrize("kind", ["text", "image"])
@pytest.mark.parametrize("ending", [".txt", ".csv", ".jsonl", ".parquet", ".npz", ".gz"])
def test_pipes_are_refused_and_not_waited_for(tmp_path: Path, kind, ending: str) -> None:
    os.mkfifo(tmp_path / f"pipe{ending}")

    with pytest.raises(InputError, match="is a pipe, expected a file"):
        open_data(str(tmp_path / f"pipe{ending}"), kind, ReadOptions())
