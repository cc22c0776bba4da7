"""Which data a name stands for, and what is refused before anything is opened."""

import os
from pathlib import Path

import pytest

from repalign.data.files import DecodedFiles, open_list
from repalign.data.image_arrays import open_idx, open_npy, open_npz
from repalign.data.open_data import IMAGES, open_data
from repalign.data.read_options import ReadOptions
from repalign.data.text import JsonLines, TextFile
from repalign.data.text_tables import CsvColumn, ParquetColumn
from repalign.exceptions import InputError


@pytest.mark.parametrize("kind", ["text", "image"])
@pytest.mark.parametrize("ending", [".txt", ".csv", ".jsonl", ".parquet", ".npz", ".gz"])
def test_pipes_are_refused_and_not_waited_for(tmp_path: Path, kind, ending: str) -> None:
    os.mkfifo(tmp_path / f"pipe{ending}")

    with pytest.raises(InputError, match="a pipe"):
        open_data(str(tmp_path / f"pipe{ending}"), kind, ReadOptions())


READERS = {
    "lines": lambda path: TextFile(path, "line"),
    "whole": lambda path: TextFile(path, "file"),
    "jsonl": lambda path: JsonLines(path, None, None),
    "csv": lambda path: CsvColumn(path, None, None),
    "parquet": lambda path: ParquetColumn(path, None, None),
    "list": lambda path: open_list(path, IMAGES),
    "idx": open_idx,
    "npy": open_npy,
    "npz": open_npz,
    "image": lambda path: DecodedFiles([path], ["a"], {}, IMAGES).read(0),
}


@pytest.mark.parametrize("open_it", READERS.values(), ids=READERS)
def test_readers_refuse_pipes_and_devices_themselves(tmp_path: Path, open_it) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a pipe"):
        open_it(tmp_path / "pipe")
    with pytest.raises(InputError, match="a device"):
        open_it(Path("/dev/zero"))


def test_a_list_of_images_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"list\.txt.* UTF-8"):
        open_list(tmp_path / "list.txt", IMAGES)
