"""Export and import: every format gives back what a store held."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from repalign.exceptions import InputError, StoreError
from repalign.store import WriteOptions, open_store, write_store
from repalign.store.exchange import export_store, import_store, native_view_name
from repalign.store.index import RowIndex, encode_ids
from repalign.store.matching import join_sources
from repalign.store.open import as_source, open_embeddings

FORMATS = ["npy", "npz", "csv", "parquet", "safetensors"]
VALUES = np.random.default_rng(0).standard_normal((300, 5)).astype(np.float32)
NAMES = [f'cät {row}, "x"' for row in range(300)]


def token_index(*, hashes: bool = True) -> RowIndex:
    shas = np.random.default_rng(1).integers(0, 256, (300, 16), dtype=np.uint8)
    return RowIndex(
        sample=np.arange(300) // 3,
        token=np.arange(300) % 3,
        sample_sha=shas if hashes else None,
        ids=encode_ids(f"text-{row // 3}" for row in range(300)),
    )


@pytest.fixture
def pooled_store(tmp_path: Path) -> Path:
    index = RowIndex(np.arange(300), np.full(300, -1), ids=encode_ids(NAMES))
    write_store(tmp_path / "a.h5", {"final": VALUES}, index=index, spec={"model": "m"})
    return tmp_path / "a.h5"


@pytest.mark.parametrize("file_format", FORMATS)
def test_values_and_ids_survive_every_format(pooled_store: Path, file_format: str) -> None:
    out = pooled_store.with_suffix(f".{file_format}")
    original = open_embeddings(pooled_store)

    result = export_store(original, out)
    source = open_embeddings(out)

    np.testing.assert_array_equal(source.rows.read(0, 300).astype(np.float32), VALUES)
    assert source.index.ids.tolist() == original.index.ids.tolist()
    assert (result.n_rows, result.dim, result.warnings) == (300, 5, ())
    assert (result.ids_path is not None) == (file_format in {"npy", "safetensors"})
    assert join_sources([original, source]).report.matched_by == "ids"


@pytest.mark.parametrize("file_format", ["npz", "csv", "parquet"])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_tokens_hashes_and_precision_survive(tmp_path: Path, file_format: str, dtype: str) -> None:
    values = VALUES.astype(dtype)
    write_store(tmp_path / "a.h5", values, index=token_index(), options=WriteOptions(dtype=dtype))
    original = open_embeddings(tmp_path / "a.h5")
    export_store(original, tmp_path / f"a.{file_format}")

    source = open_embeddings(tmp_path / f"a.{file_format}")

    np.testing.assert_array_equal(source.rows.read(0, 300).astype(dtype), values)
    assert source.index.is_same_rows(original.index)
    np.testing.assert_array_equal(source.index.sample, original.index.sample)
    report = join_sources([original, source]).report
    assert (report.matched_by, report.access) == ("ids and hashes", ("in order", "in order"))


@pytest.mark.parametrize("hashes", [True, False])
@pytest.mark.parametrize("file_format", ["npy", "safetensors"])
def test_what_a_format_does_not_keep_is_said(
    tmp_path: Path, file_format: str, hashes: bool
) -> None:
    write_store(tmp_path / "a.h5", VALUES, index=token_index(hashes=hashes))

    result = export_store(open_embeddings(tmp_path / "a.h5"), tmp_path / f"a.{file_format}")

    lost = "token positions and input hashes" if hashes else "token positions"
    (warning,) = result.warnings
    assert lost in warning


def test_other_libraries_read_the_exports(pooled_store: Path) -> None:
    source = open_embeddings(pooled_store)
    for file_format in FORMATS:
        export_store(source, pooled_store.with_suffix(f".{file_format}"))

    np.testing.assert_array_equal(np.load(pooled_store.with_suffix(".npy")), VALUES)
    with np.load(pooled_store.with_suffix(".npz")) as archive:
        np.testing.assert_array_equal(archive["embedding"], VALUES)
        assert archive["ids"].tolist() == NAMES
    tensors = load_file(pooled_store.with_suffix(".safetensors"))
    np.testing.assert_array_equal(tensors["embedding"], VALUES)


@pytest.mark.parametrize("file_format", ["npy", "safetensors"])
def test_ids_beside_other_values_than_theirs_are_refused(
    pooled_store: Path, file_format: str
) -> None:
    out = pooled_store.with_suffix(f".{file_format}")
    export_store(pooled_store, out)
    assert open_embeddings(out).fingerprint == open_embeddings(pooled_store).fingerprint
    other = VALUES[::-1].copy()
    np.save(out, other) if file_format == "npy" else save_file({"embedding": other}, out)

    with pytest.raises(InputError, match=r"a\.ids\.txt.*other"):
        open_embeddings(out)

    given = open_embeddings(out, ids=NAMES[::-1])
    assert join_sources([open_embeddings(pooled_store), given]).report.warnings == ()
    # the same ids, said of other rows on purpose
    assert open_embeddings(out, ids=out.with_suffix(".ids.txt")).index.ids[0] == NAMES[0].encode()


def test_existing_files_are_kept_unless_told(pooled_store: Path) -> None:
    source = open_embeddings(pooled_store)
    out = pooled_store.with_suffix(".npy")
    out.write_text("mine")

    with pytest.raises(InputError, match=r"a.npy: .*exists"):
        export_store(source, out)
    assert out.read_text() == "mine"
    export_store(source, out, overwrite=True)
    np.testing.assert_array_equal(np.load(out), VALUES)
    out.unlink()
    pooled_store.with_name("a.ids.txt").write_text("mine")
    with pytest.raises(InputError, match=r"a.ids.txt: .*exists"):
        export_store(source, out)


def test_a_failed_export_leaves_nothing(tmp_path: Path) -> None:
    values = VALUES.copy()
    values[200, 0] = np.nan

    for file_format in FORMATS:
        with pytest.raises(InputError, match="row 200 holds nan"):
            export_store(as_source(values), tmp_path / f"a.{file_format}")
    assert list(tmp_path.iterdir()) == []


def test_unknown_formats_and_ids_with_line_breaks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'xls'.*npy, npz, csv"):
        export_store(as_source(VALUES), tmp_path / "a.xls")
    broken = as_source(VALUES[:1], ids=["a\nb"])
    with pytest.raises(InputError, match=r"id 'a\\nb'"):
        export_store(broken, tmp_path / "a.npy")
    export_store(broken, tmp_path / "a.npz")
    assert open_embeddings(tmp_path / "a.npz").index.ids.tolist() == [b"a\nb"]


def test_progress_reaches_the_number_of_rows(pooled_store: Path) -> None:
    for file_format in FORMATS:
        seen: list[tuple[int, int]] = []
        export_store(
            open_embeddings(pooled_store),
            pooled_store.with_suffix(f".{file_format}"),
            on_progress=lambda done, total, seen=seen: seen.append((done, total)),
        )
        assert seen[-1] == (300, 300)


def test_import_keeps_values_ids_and_provenance(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", emb=VALUES, ids=np.array(NAMES))

    info = import_store(open_embeddings(tmp_path / "a.npz"), tmp_path / "a.h5")

    imported = info.spec["imported"]
    assert list(imported["files"]) == ["a.npz"]
    assert len(imported["files"]["a.npz"]) == 64
    assert imported["layout"] == "numpy archive"
    assert imported["ids_from"] == "a.npz::ids"
    assert str(tmp_path) not in str(dict(info.spec))
    with open_store(tmp_path / "a.h5") as store:
        np.testing.assert_array_equal(store.view("emb").read(0, 300), VALUES)
        assert store.index.slice(0, 300).ids.tolist() == [name.encode() for name in NAMES]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_import_keeps_the_precision(tmp_path: Path, dtype: str) -> None:
    info = import_store(as_source(VALUES.astype(dtype)), tmp_path / "a.h5")

    assert info.views[0].dtype == dtype


def test_imported_rows_without_ids_are_still_matched_by_order(tmp_path: Path) -> None:
    import_store(as_source(VALUES), tmp_path / "a.h5")

    source = open_embeddings(tmp_path / "a.h5")

    assert source.identity == "row order"
    assert join_sources([source, as_source(VALUES)]).report.matched_by == "row order"


def test_import_refuses_stores_existing_files_and_nan(pooled_store: Path) -> None:
    with pytest.raises(InputError, match=r"a.h5: .*store already"):
        import_store(open_embeddings(pooled_store), pooled_store.with_name("b.h5"))
    with pytest.raises(InputError, match=r"a.h5: already exists"):
        import_store(as_source(VALUES), pooled_store)
    broken = VALUES.copy()
    broken[299, 4] = np.inf
    with pytest.raises(InputError, match=r"row 299 .*inf .*column 4"):
        import_store(as_source(broken), pooled_store.with_name("b.h5"))
    assert sorted(path.name for path in pooled_store.parent.iterdir()) == ["a.h5"]


@pytest.mark.parametrize(
    ("view", "name"),
    [
        ("emb", "emb"),
        ("obsm/X_pca", "obsm_X_pca"),
        ("é", "_"),
        ("", "embedding"),
        ("x" * 99, "x" * 64),
    ],
)
def test_views_get_a_name_that_a_store_may_have(view: str, name: str) -> None:
    assert native_view_name(view) == name


def test_a_damaged_store_is_a_store_error(pooled_store: Path) -> None:
    whole = pooled_store.read_bytes()
    for keep in (len(whole) - 100, 5000):
        pooled_store.write_bytes(whole[:keep])

        with pytest.raises(StoreError, match=r"a\.h5"):
            open_embeddings(pooled_store)
