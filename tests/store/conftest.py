"""Small stores with every kind of column, and the arrays they were written from."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repalign.store.index import RowIndex
from repalign.store.writer import write_store
from tests.shards import SmallShards

SPEC = {"model": {"id": "tiny", "layer": "final"}, "seed": 7}


@dataclass(frozen=True)
class Example:
    """What a store was written from."""

    views: Mapping[str, Any]
    index: RowIndex

    def write(self, path: Path, **options: Any) -> Path:
        write_store(path, self.views, index=self.index, spec=SPEC, options=SmallShards(**options))
        return path


def make_example(n_rows: int, dims: tuple[int, ...] = (5, 300), seed: int = 0) -> Example:
    rng = np.random.default_rng(seed)
    names = [f"layer.{number}" for number in range(len(dims))]
    return Example(
        {
            name: rng.standard_normal((n_rows, dim), dtype=np.float32)
            for name, dim in zip(names, dims, strict=True)
        },
        RowIndex(
            sample=rng.permutation(n_rows),
            token=rng.integers(-1, 40, n_rows),
            sample_sha=rng.integers(0, 256, (n_rows, 16), dtype=np.uint8),
            ids=np.array([f"scan/{i:x}" for i in range(n_rows)]),
        ),
    )


@pytest.fixture
def example() -> Example:
    """3000 rows: several chunks of the wider view."""
    return make_example(3000)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same store as one file and as a directory of three shards, written once."""
    folder = tmp_path_factory.mktemp("written")
    make_example(3000).write(folder / "run.h5")
    make_example(3000).write(folder / "run.rst", shard_rows=1024)
    return folder


@pytest.fixture
def packed(written: Path, tmp_path: Path) -> Path:
    """A copy of the store of one file."""
    return Path(shutil.copy(written / "run.h5", tmp_path))


@pytest.fixture
def sharded(written: Path, tmp_path: Path) -> Path:
    """A copy of the directory of three shards."""
    return Path(shutil.copytree(written / "run.rst", tmp_path / "run.rst"))


@pytest.fixture
def new_example() -> Callable[..., Example]:
    """Make an example of another size."""
    return make_example
