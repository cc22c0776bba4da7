"""What was written comes back, whatever the sizes, types and shards."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repalign.store.index import RowIndex
from repalign.store.reader import open_store, verify_store
from repalign.store.shard_files import pack_store
from repalign.store.writer import StoreWriter
from tests.shards import SmallShards


@st.composite
def written_stores(draw: st.DrawFn) -> dict:
    n_rows = draw(st.integers(1, 200))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    widths = draw(st.lists(st.integers(1, 4200), min_size=1, max_size=2))
    dtype = draw(st.sampled_from(["float16", "float32", "float64"]))
    views = {f"v{i}": rng.standard_normal((n_rows, w)).astype(dtype) for i, w in enumerate(widths)}
    with_sha, with_ids = draw(st.booleans()), draw(st.booleans())
    texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
    stems = draw(st.lists(texts, min_size=1, max_size=5))
    index = RowIndex(
        sample=rng.integers(0, 2**62, n_rows),
        token=rng.integers(-1, 2**31, n_rows),
        sample_sha=rng.integers(0, 256, (n_rows, 16), dtype=np.uint8) if with_sha else None,
        ids=np.array([f"{stems[i % len(stems)]}-{i}" for i in range(n_rows)]) if with_ids else None,
    )
    cuts = sorted({0, n_rows, *draw(st.lists(st.integers(0, n_rows), max_size=4))})
    options = SmallShards(
        dtype=dtype,
        shard_rows=draw(st.sampled_from([None, 64, 100])),
    )
    return {"views": views, "index": index, "cuts": cuts, "options": options}


def write(path: Path, stored: dict) -> None:
    dims = {name: values.shape[1] for name, values in stored["views"].items()}
    with StoreWriter(path, spec={}, views=dims, options=stored["options"]) as writer:
        for start, stop in zip(stored["cuts"], stored["cuts"][1:], strict=False):
            rows = {name: values[start:stop] for name, values in stored["views"].items()}
            writer.append(rows, stored["index"].slice(start, stop))


@settings(max_examples=12, deadline=None)
@given(stored=written_stores(), data=st.data())
def test_every_slice_comes_back_bit_for_bit(stored: dict, data: st.DataObject) -> None:
    n_rows = len(stored["index"])
    start = data.draw(st.integers(0, n_rows))
    stop = data.draw(st.integers(start, n_rows))
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, n_rows - 1)))), dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("packed.h5", "directory"):
            write(Path(folder) / name, stored)
            with open_store(Path(folder) / name) as store:
                assert len(store) == n_rows
                np.testing.assert_equal(
                    store.index.slice(start, stop).columns,
                    stored["index"].slice(start, stop).columns,
                )
                for view, values in stored["views"].items():
                    rows = store.view(view)
                    assert rows.read(start, stop).tobytes() == values[start:stop].tobytes()
                    assert rows.take(chosen).tobytes() == values[chosen].tobytes()


@settings(max_examples=6, deadline=None)
@given(stored=written_stores())
def test_fingerprint_does_not_depend_on_shards_or_packing(stored: dict) -> None:
    dtype = stored["options"].dtype
    found = set()
    with tempfile.TemporaryDirectory() as folder:
        for number, options in enumerate(
            [
                stored["options"],
                SmallShards(dtype=dtype, shard_rows=77),
                SmallShards(dtype=dtype, shard_rows=4096),
            ]
        ):
            path = Path(folder) / f"run{number}"
            write(path, stored | {"options": options})
            packed = pack_store(path)
            assert verify_store(path).problems == ()
            assert verify_store(packed).problems == ()
            for name in (path, packed):
                with open_store(name) as store:
                    found.add(store.fingerprint)
    assert len(found) == 1


@pytest.mark.parametrize("change", ["value", "sign of zero", "id", "token", "view name", "dtype"])
def test_fingerprint_depends_on_everything_else(change: str, tmp_path: Path) -> None:
    index = RowIndex(np.arange(3), np.zeros(3, int), ids=np.array(["a", "b", "c"]))
    stored = {"views": {"x": np.zeros((3, 2), np.float32)}, "index": index}
    stored |= {"cuts": [0, 3], "options": SmallShards()}
    other = dict(stored)
    if change == "value":
        other["views"] = {"x": np.eye(3, 2, dtype=np.float32)}
    elif change == "sign of zero":
        other["views"] = {"x": -np.zeros((3, 2), np.float32)}
    elif change == "id":
        other["index"] = RowIndex(index.sample, index.token, ids=np.array(["a", "b", "d"]))
    elif change == "token":
        other["index"] = RowIndex(index.sample, index.token + 1, ids=index.ids)
    elif change == "view name":
        other["views"] = {"y": stored["views"]["x"]}
    else:
        other["options"] = SmallShards(dtype="float16")

    write(tmp_path / "a.h5", stored)
    write(tmp_path / "b.h5", other)

    with open_store(tmp_path / "a.h5") as first, open_store(tmp_path / "b.h5") as second:
        assert first.fingerprint != second.fingerprint


def test_same_content_gives_the_same_bytes(tmp_path: Path, example) -> None:
    first, second = example.write(tmp_path / "a.h5"), example.write(tmp_path / "b.h5")

    assert first.read_bytes() == second.read_bytes()
