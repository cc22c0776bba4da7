"""Hostile and damaged files: each is refused in one line that names the file and the key."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from repalign.exceptions import StoreError
from repalign.store import open_store, verify_store
from repalign.store.digests import canonical_json, fingerprint_of, sha256_of
from repalign.store.directory import read_sealed, write_sealed
from repalign.store.header import (
    Description,
    IndexLayout,
    ViewInfo,
    columns_of,
    parse_description,
    parse_index_layout,
)
from repalign.store.index import pooled_index
from repalign.store.shard_files import FileWriter

VIEW = "emb/layer.1"


def read_all(path: Path) -> None:
    """Read every value of a store."""
    with open_store(path) as store:
        for view in store.views:
            store.view(view).read(0, len(store))
        store.index.slice(0, len(store))


def refusal(path: Path) -> str:
    """Return the one line that refuses a store."""
    with pytest.raises(StoreError) as caught:
        read_all(path)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    assert len(message) < 500
    return message


def replace_dataset(path: Path, key: str, make: Callable[[h5py.File, Any], None]) -> None:
    """Delete a dataset and let ``make`` put something else under its name."""
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        values = file[key][()]
        del file[key]
        make(file, values)


def change_header(path: Path, change: Callable[[dict], None]) -> None:
    """Change the header and seal it again, as someone hostile would."""
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        header = json.loads(file["header_json"][()].tobytes())
        change(header)
        text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        del file["header_json"]
        file["header_json"] = np.frombuffer(text.encode(), np.uint8)
        file.attrs["header_sha256"] = np.bytes_(sha256_of(text))


def test_external_links_are_refused(packed: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["emb/layer.1"] = np.zeros((3000, 300), np.float32)

    def link(file: h5py.File, values: Any) -> None:
        file[VIEW] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/emb/layer.1")

    replace_dataset(packed, VIEW, link)

    assert re.search(f"{VIEW}: .*external link", refusal(packed))


def test_external_links_on_the_way_are_refused(packed: Path, tmp_path: Path) -> None:
    with h5py.File(packed) as file, h5py.File(tmp_path / "other.h5", "w") as other:
        file.copy("emb", other)
    with h5py.File(packed, "r+") as file:
        del file["emb"]
        file["emb"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/emb")

    assert re.search("emb: .*external link", refusal(packed))


def test_soft_links_are_refused(packed: Path) -> None:
    with h5py.File(packed, "r+") as file:
        del file["index/token"]
        file["index/token"] = h5py.SoftLink("/index/sample")

    assert re.search("index/token: .*soft link", refusal(packed))


@pytest.mark.parametrize("key", [VIEW, "header_json", "digests/emb/layer.0"])
def test_external_storage_is_refused(packed: Path, tmp_path: Path, key: str) -> None:
    def store_outside(file: h5py.File, values: Any) -> None:
        outside = tmp_path / "outside.bin"
        outside.write_bytes(values.tobytes())
        file.create_dataset(
            key, values.shape, values.dtype, external=[(str(outside), 0, values.nbytes)]
        )

    replace_dataset(packed, key, store_outside)

    assert f"{key}: has external storage" in refusal(packed)


@pytest.mark.parametrize("key", [VIEW, "header_json", "digests/index/ids"])
def test_virtual_datasets_are_refused(packed: Path, tmp_path: Path, key: str) -> None:
    def make_virtual(file: h5py.File, values: Any) -> None:
        layout = h5py.VirtualLayout(values.shape, values.dtype)
        layout[:] = h5py.VirtualSource(str(tmp_path / "missing.h5"), "x", values.shape)
        file.create_virtual_dataset(key, layout)

    replace_dataset(packed, key, make_virtual)

    assert re.search(f"{key}: .*virtual", refusal(packed))


def test_committed_types_are_refused(packed: Path) -> None:
    def commit(file: h5py.File, values: Any) -> None:
        kind = h5py.h5t.py_create(values.dtype).copy()
        kind.commit(file.id, b"emb/type")
        space = h5py.h5s.create_simple(values.shape)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((512, 300))
        h5py.h5d.create(file.id, VIEW.encode(), kind, space, properties)
        del file["emb/type"]

    replace_dataset(packed, VIEW, commit)

    assert re.search(f"{VIEW}: .*committed", refusal(packed))


@pytest.mark.parametrize("dtype", ["V4", ">f4", "i4", h5py.ref_dtype, h5py.string_dtype()])
def test_other_types_are_refused(packed: Path, dtype: Any) -> None:
    def change(file: h5py.File, values: Any) -> None:
        file.create_dataset(VIEW, values.shape, dtype, chunks=(512, 300))

    replace_dataset(packed, VIEW, change)

    assert re.search(f"{VIEW}: .*type .*float32", refusal(packed))


def test_types_and_groups_in_place_of_data_are_refused(packed: Path) -> None:
    def make_type(file: h5py.File, values: Any) -> None:
        file[VIEW] = np.dtype("f4")

    replace_dataset(packed, VIEW, make_type)
    assert re.search(f"{VIEW}: .*Datatype", refusal(packed))
    with h5py.File(packed, "r+") as file:
        del file[VIEW]
        file.create_group(VIEW)
    assert re.search(f"{VIEW}: .*Group", refusal(packed))


@pytest.mark.parametrize("group", ["/", "emb", "index", "digests", "digests/emb"])
def test_unknown_and_missing_names_are_refused(packed: Path, group: str) -> None:
    where = "" if group == "/" else f"{group}: "
    with h5py.File(packed, "r+") as file:
        file[group]["extra"] = np.zeros(3)
    assert f"{where}unknown name 'extra'" in refusal(packed)

    with h5py.File(packed, "r+") as file:
        del file[group]["extra"]
        gone = sorted(file[group])[0]
        del file[group][gone]
    assert f"{where}{gone!r} is missing" in refusal(packed)


def test_a_renamed_member_is_refused(packed: Path) -> None:
    with h5py.File(packed, "r+") as file:
        file.move("index/token", "index/tokens")

    assert re.search("index: 'token' .*missing", refusal(packed))


def test_a_file_of_three_petabytes_is_refused_by_its_size(packed: Path) -> None:
    n_rows = 10**12

    def declare(file: h5py.File, values: Any) -> None:
        file.create_dataset(VIEW, (n_rows, 300), "f4", chunks=(512, 300))

    replace_dataset(packed, VIEW, declare)
    change_header(packed, lambda header: header.update(n_rows=n_rows))
    # the fingerprint is checked first; give the right one, as someone hostile would
    message = refusal(packed)
    fingerprint = sealed_fingerprint(packed)
    change_header(packed, lambda header: header.update(fingerprint=fingerprint))

    assert re.search("'fingerprint' .*digests", message)
    assert re.search(r" 1000000000000 rows .* \d+ bytes, .* \d+", refusal(packed))


def sealed_fingerprint(path: Path) -> str:
    """Return the fingerprint that belongs to a changed header."""
    with h5py.File(path) as file:
        header = json.loads(file["header_json"][()].tobytes())
    columns = columns_of(parse_description(header, ""), parse_index_layout(header, ""))
    return fingerprint_of(header["n_rows"], columns, header["digests"])


def seal(path: Path, change: Callable[[dict], None]) -> None:
    """Change the header and give it the fingerprint that belongs to it."""
    change_header(path, change)
    fingerprint = sealed_fingerprint(path)
    change_header(path, lambda header: header.update(fingerprint=fingerprint))


@pytest.mark.parametrize("shape", [(2999, 300), (3000, 301), (3000,), (3000, 300, 1)])
def test_other_shapes_are_refused(packed: Path, shape: tuple[int, ...]) -> None:
    replace_dataset(packed, VIEW, lambda file, _: file.create_dataset(VIEW, shape, "f4"))

    assert f"{VIEW}: shape is {shape}, expected (3000, 300)" in refusal(packed)


def test_shapes_that_can_grow_are_refused(packed: Path) -> None:
    def grow(file: h5py.File, values: Any) -> None:
        file.create_dataset(VIEW, data=values, maxshape=(None, 300), chunks=(512, 300))

    replace_dataset(packed, VIEW, grow)

    assert re.search(rf"{VIEW}: .*grow .*\(None, 300\)", refusal(packed))


@pytest.mark.parametrize("chunks", [None, (3000, 300), (512, 150)])
def test_other_chunks_are_refused(packed: Path, chunks: tuple[int, int] | None) -> None:
    replace_dataset(packed, VIEW, lambda file, v: file.create_dataset(VIEW, data=v, chunks=chunks))

    assert f"{VIEW}: chunks are {chunks}, expected (512, 300)" in refusal(packed)


@pytest.mark.parametrize("filters", [{"compression": "gzip"}, {"shuffle": True}])
def test_unknown_filters_are_refused(packed: Path, filters: dict) -> None:
    def recode(file: h5py.File, values: Any) -> None:
        file.create_dataset(VIEW, data=values, chunks=(512, 300), **filters)

    replace_dataset(packed, VIEW, recode)

    assert re.search(rf"{VIEW}: .*compressed", refusal(packed))


def test_missing_chunks_are_noticed_although_hdf5_gives_zeros(packed: Path) -> None:
    def leave_out(file: h5py.File, values: Any) -> None:
        dataset = file.create_dataset(VIEW, values.shape, "f4", chunks=(512, 300))
        dataset[:1024] = values[:1024]

    replace_dataset(packed, VIEW, leave_out)

    assert f"{VIEW}: has 2 of 6 chunks" in refusal(packed)
    assert not verify_store(packed, mode="quick").is_sound


def test_small_datasets_in_chunks_are_refused(packed: Path) -> None:
    def chunked(file: h5py.File, values: Any) -> None:
        file.create_dataset("digests/emb/layer.0", data=values, chunks=True)

    replace_dataset(packed, "digests/emb/layer.0", chunked)

    assert re.search(r"digests/emb/layer\.0: .*contiguous", refusal(packed))


def test_a_header_that_is_declared_huge_is_refused(packed: Path) -> None:
    replace_dataset(
        packed, "header_json", lambda file, _: file.create_dataset("header_json", (10**12,), "u1")
    )

    assert re.search("header_json: .*932 GiB", refusal(packed))


def test_a_user_block_is_refused(packed: Path, tmp_path: Path) -> None:
    path = tmp_path / "block.h5"
    with h5py.File(packed) as source, h5py.File(path, "w", userblock_size=512) as file:
        for name in source:
            source.copy(name, file)
        for name, value in source.attrs.items():
            file.attrs[name] = value

    assert re.search("user block .*512 ", refusal(path))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.int64(3), "format_version is 3, this installation reads version 2; update your inst"),
        (np.int64(0), "format_version is 0, .* extract"),
        ("1", "attribute format_version is not a short text or number"),
        (np.arange(3), "attribute format_version is not a short text or number"),
        (None, "attribute format_version is missing"),
    ],
)
def test_other_versions_are_refused(packed: Path, value: Any, message: str) -> None:
    with h5py.File(packed, "r+") as file:
        del file.attrs["format_version"]
        if value is not None:
            file.attrs["format_version"] = value

    assert re.search(message, refusal(packed))


def test_other_hdf5_files_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros(3)
    assert re.search("attribute format .*missing", refusal(tmp_path / "a.h5"))

    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file.attrs["format"] = np.bytes_("anndata")
    assert re.search("not a repalign-store .*import", refusal(tmp_path / "a.h5"))


def test_things_that_are_no_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("hello")
    os.mkfifo(tmp_path / "pipe.h5")
    (tmp_path / "empty").mkdir()

    assert "cannot read" in refusal(tmp_path / "text.h5")
    assert "regular" in refusal(tmp_path / "pipe.h5")
    assert "no manifest.json" in refusal(tmp_path / "empty")
    assert "cannot be opened" in refusal(tmp_path / "gone.h5")


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.99, 0.9999])
def test_truncated_files_are_refused(packed: Path, keep: float) -> None:
    os.truncate(packed, int(packed.stat().st_size * keep))

    refusal(packed)


def test_one_flipped_bit_in_the_values_is_noticed(packed: Path, example) -> None:
    content = bytearray(packed.read_bytes())
    content[content.find(example.views["layer.1"][700].tobytes()) + 5] ^= 8
    packed.write_bytes(content)

    assert re.search(f"{VIEW}: .* 512 to 1023 .*checksum", refusal(packed))
    with open_store(packed) as store:
        assert store.view("layer.1").read(0, 512).shape == (512, 300)  # what is sound is readable
    result = verify_store(packed)
    assert len(result.problems) == 1
    assert not result.is_sound
    assert verify_store(packed, mode="quick").is_sound


@pytest.mark.parametrize("column", ["sample", "token", "sample_sha", "ids"])
def test_one_flipped_bit_in_the_identities_is_noticed(packed: Path, example, column: str) -> None:
    content = bytearray(packed.read_bytes())
    content[content.find(example.index.columns[column].tobytes()) + 17] ^= 1
    packed.write_bytes(content)

    assert re.search(f"index/{column}: .* 0 to 2999 ", refusal(packed))


def test_swapped_chunks_are_noticed(packed: Path, example) -> None:
    # each chunk is whole, and HDF5 would have no objection
    with h5py.File(packed, "r+", libver=("v110", "v110")) as file:
        first, second = file[VIEW][:512], file[VIEW][512:1024]
        file[VIEW][:512], file[VIEW][512:1024] = second, first

    assert re.search(f"{VIEW}: .* 0 to 511 .*checksum", refusal(packed))


def test_changed_digests_are_noticed(packed: Path) -> None:
    with h5py.File(packed, "r+", libver=("v110", "v110")) as file:
        file["digests/emb/layer.0"][0, 0] ^= 1
    assert re.search(r"digests/emb/layer\.0: .*header", refusal(packed))
    assert not verify_store(packed, mode="quick").is_sound


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rows_with_nan_are_refused_although_their_checksums_hold(
    tmp_path: Path, value: float, dtype: str
) -> None:
    values = np.arange(600, dtype=dtype).reshape(200, 3)
    values[150, 1] = value
    path = tmp_path / "a.h5"
    write_unchecked(path, values)

    assert re.search("emb/x: row 150 .*NaN", refusal(path))
    assert not verify_store(path).is_sound


def test_identities_that_no_row_has_are_refused_although_their_checksums_hold(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.h5"
    write_unchecked(path, np.ones((3, 2), np.float32), sample=np.array([0, -5, 1]))

    assert re.search("sample .* -5 to 1", refusal(path))


def write_unchecked(path: Path, values: np.ndarray, sample: np.ndarray | None = None) -> None:
    """Write a store with valid checksums, without the checks of the writer."""
    view = ViewInfo("x", values.shape[1], str(values.dtype))
    index = IndexLayout(("sample", "token"))
    identities = pooled_index(len(values))
    with FileWriter(path, Description((view,), {}), index, n_rows=len(values), shard=None) as file:
        for column, name in zip(index.datasets(), index.columns, strict=True):
            given = sample if name == "sample" and sample is not None else None
            file.write(column, 0, identities.columns[name] if given is None else given)
        file.write(view.column, 0, values)
        file.finish()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(n_rows=0), "key 'n_rows' is 0"),
        (lambda h: h.update(n_rows=True), "key 'n_rows' is missing or of a wrong type"),
        (lambda h: h.update(n_rows="3"), "key 'n_rows' is missing or of a wrong type; the file"),
        (lambda h: h.pop("views"), "key 'views' is missing"),
        (lambda h: h["views"].update({"../x": {}}), "views: '../x': key 'dim' is missing"),
        (lambda h: h["views"].update(x=3), "views: 'x': not a JSON object"),
        (lambda h: h.update(views={}), "a store has 1 to 1024 views"),
        (lambda h: h["views"]["layer.0"].update(dtype="object"), "view layer.0: dtype is object"),
        (
            lambda h: h["views"].update({"a/b": {"dim": 1, "dtype": "float32"}}),
            "view name 'a/b'",
        ),
        (lambda h: h["spec"].update(seed=8), "key 'spec' does not match spec_sha256"),
        (lambda h: h.update(spec_sha256="x"), "key 'spec_sha256' is not a sha256"),
        (lambda h: h.update(index=["sample"]), "index columns .*: expected"),
        (lambda h: h.update(index=["sample", "token", {}]), "index columns .*: expected .'sample'"),
        (lambda h: h.update(id_bytes=0), "key 'id_bytes' is 0"),
        (lambda h: h.update(id_bytes=4096), "key 'id_bytes' is 4096"),
        (lambda h: h["digests"].update({"emb/y": "0" * 64}), "key 'digests' names unknown columns"),
        (lambda h: h["digests"].pop("index/ids"), "digests: key 'index/ids' is missing"),
    ],
)
def test_headers_that_no_store_has_are_refused(packed: Path, change, message: str) -> None:
    change_header(packed, change)

    assert re.search(f"header_json: {message}", refusal(packed))


@pytest.mark.parametrize(
    "text", [b"[1]", b"{", b'{"a": NaN}', b'{"a": 1e999}', b"\xff", b"[" * 10**6]
)
def test_headers_that_are_no_json_are_refused(packed: Path, text: bytes) -> None:
    with h5py.File(packed, "r+", libver=("v110", "v110")) as file:
        del file["header_json"]
        file["header_json"] = np.frombuffer(text, np.uint8)
        decoded = text.decode("utf-8", errors="ignore")
        file.attrs["header_sha256"] = np.bytes_(sha256_of(decoded))

    refusal(packed)


def test_a_changed_header_is_noticed(packed: Path) -> None:
    with h5py.File(packed, "r+", libver=("v110", "v110")) as file:
        file["header_json"][40] ^= 1

    assert "header_sha256" in refusal(packed)


def test_identifiers_longer_than_the_store_declares_are_refused(sharded: Path) -> None:
    content = read_sealed(sharded / "manifest.json")
    write_sealed(sharded / "manifest.json", content | {"id_bytes": 2})

    assert "identifiers are longer" in refusal(sharded)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["shards"][1].update(file="../../etc/passwd"), "key 'file' is '../../etc/pass"),
        (lambda m: m["shards"][1].update(file="part-00000.h5"), "key 'file' is 'part-00000.h5'"),
        (lambda m: m["shards"][1].pop("file"), "key 'file' is 'None', expected 'part-00001.h5'"),
        (lambda m: m["shards"][1].update(n_rows=0), "shards: 1: key 'n_rows' is 0"),
        (lambda m: m["shards"][1].update(n_rows=5), "its number of rows is not the recorded one"),
        (lambda m: m["shards"][1].update(n_bytes=5), "bytes, the manifest says 5"),
        (lambda m: m["shards"][1].update(content_sha256="0" * 64), "its fingerprint is not the"),
        (lambda m: m["shards"].append(3), "shards: 3: not a JSON object"),
        (lambda m: m["shards"].clear(), "key 'shards' is empty"),
        (lambda m: m["shards"].append(dict(m["shards"][2], file="part-00003.h5")), "No such file"),
        (lambda m: m.update(format="other"), "not a repalign-store"),
        (lambda m: m.update(format_version=3), "format_version is 3, .* update your installation"),
        (lambda m: m.update(format_version=0), "format_version is 0, .* extract"),
        (lambda m: m["views"].pop("layer.0"), "its list of views is not the recorded one"),
        (
            lambda m: m.update(spec={}, spec_sha256=sha256_of(canonical_json({}))),
            "its spec is not the recorded one",
        ),
    ],
)
def test_manifests_that_no_store_has_are_refused(sharded: Path, change, message: str) -> None:
    content = read_sealed(sharded / "manifest.json")
    change(content)
    write_sealed(sharded / "manifest.json", content)

    assert re.search(message, refusal(sharded))


def test_a_changed_manifest_is_noticed(sharded: Path) -> None:
    manifest = sharded / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"tiny"', '"tinz"'))
    assert re.search("'content' .*sha256", refusal(sharded))

    manifest.write_text("{}")
    assert re.search("manifest.json: .*'content' .*missing", refusal(sharded))
    manifest.write_text("no json")
    assert "manifest.json: not JSON" in refusal(sharded)
    manifest.write_text("[]")
    assert re.search("manifest.json: .*object", refusal(sharded))
    with manifest.open("r+b") as file:
        file.truncate(2**24 + 1)
    assert re.search("manifest.json: .*16 MiB", refusal(sharded))


def test_symbolic_links_in_a_directory_are_refused(sharded: Path, tmp_path: Path) -> None:
    for name, message in (
        ("part-00001.h5", "part-00001.h5: is a link"),
        ("manifest.json", "manifest.json: cannot be read"),
    ):
        (sharded / name).rename(tmp_path / name)
        (sharded / name).symlink_to(tmp_path / name)
        assert message in refusal(sharded)
        (sharded / name).unlink()
        (tmp_path / name).rename(sharded / name)
    read_all(sharded)


def test_swapped_shards_are_noticed(sharded: Path) -> None:
    (sharded / "part-00000.h5").rename(sharded / "kept")
    (sharded / "part-00001.h5").rename(sharded / "part-00000.h5")
    (sharded / "kept").rename(sharded / "part-00001.h5")

    assert "renamed" in refusal(sharded)
    (sharded / "manifest.json").unlink()
    with pytest.raises(StoreError, match="renamed"):
        open_store(sharded, allow_incomplete=True)


def test_a_shard_of_another_run_is_noticed(sharded: Path, new_example, tmp_path: Path) -> None:
    other = new_example(3000, seed=1).write(tmp_path / "other.rst", shard_rows=1024)
    (sharded / "part-00001.h5").write_bytes((other / "part-00001.h5").read_bytes())

    assert re.search("part-00001.h5: .*fingerprint", refusal(sharded))


def test_verification_reports_every_damaged_shard(sharded: Path) -> None:
    for number in (0, 2):
        os.truncate(sharded / f"part-0000{number}.h5", 5000)
    seen: list[tuple[int, int]] = []

    result = verify_store(sharded, on_progress=lambda *now: seen.append(now))

    assert result.n_files == 3
    assert [re.search(r"part-0000\d", line)[0] for line in result.problems] == [
        "part-00000",
        "part-00002",
    ]
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_verification_of_what_cannot_be_opened_is_a_result(tmp_path: Path) -> None:
    result = verify_store(tmp_path / "gone.h5")

    assert not result.is_sound
    assert "gone.h5: cannot" in result.problems[0]


@pytest.mark.parametrize(
    ("module", "found"),
    [("repalign.store.reader", "False"), ("h5py", "True")],
    ids=["ours", "plain"],
)
def test_hdf5_looks_for_no_filter_plugins(module: str, found: str) -> None:
    folder = Path(pytest.importorskip("hdf5plugin").__file__).parent / "plugins"
    script = f"""
import os
import {module}
import h5py
assert "HDF5_PLUGIN_PRELOAD" not in os.environ
print(h5py.h5z.filter_avail(32001))
"""
    environment = {**os.environ, "HDF5_PLUGIN_PATH": str(folder)}
    environment.pop("HDF5_PLUGIN_PRELOAD", None)

    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env=environment
    )

    # plain h5py would load the library: without that, this test could not fail
    assert done.stdout.strip() == found
