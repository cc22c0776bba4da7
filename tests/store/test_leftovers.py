"""What a writer that was killed while packing or tidying leaves in nobody's way."""

from pathlib import Path

import numpy as np
import pytest

from repalign.store.index import pooled_index
from repalign.store.reader import open_store
from repalign.store.writer import StoreWriter
from tests.shards import SmallShards

VALUES = np.eye(3, dtype=np.float32)


def test_unfinished_packed_files_are_removed_when_packing_again(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "run.h5", spec={}, views={"x": 3})
    writer.append({"x": VALUES})
    rest = tmp_path / "run.h5.parts" / ".run.h5.1-2.tmp"
    rest.write_bytes(b"half a file")

    writer.finish()

    assert [entry.name for entry in tmp_path.iterdir()] == ["run.h5"]


@pytest.mark.parametrize("rest", [[], ["part-00002.h5", "store.json"], ["store.json"]])
def test_a_removal_of_shards_that_was_interrupted_is_ended(tmp_path: Path, rest: list) -> None:
    options = SmallShards(shard_rows=1)
    with StoreWriter(tmp_path / "run.h5", spec={}, views={"x": 3}, options=options) as writer:
        writer.append({"x": VALUES})
        writer.flush()
        parts = tmp_path / "run.h5.parts"
        kept = {name: (parts / name).read_bytes() for name in rest}
    parts.mkdir()
    for name, content in kept.items():
        (parts / name).write_bytes(content)

    writer = StoreWriter(tmp_path / "run.h5", resume=True, spec={}, views={"x": 3})

    assert writer.is_complete
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.h5"]


def test_leftovers_in_a_store_that_stays_a_directory_are_removed_at_the_end(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "run", spec={}, views={"x": 3}) as writer:
        writer.append({"x": VALUES}, pooled_index(3))
        (tmp_path / "run" / ".part-00007.h5.1-2.tmp").write_bytes(b"half a shard")

    names = sorted(entry.name for entry in (tmp_path / "run").iterdir())
    assert names == ["manifest.json", "part-00000.h5", "store.json"]
    with open_store(tmp_path / "run") as store:
        assert len(store) == 3
