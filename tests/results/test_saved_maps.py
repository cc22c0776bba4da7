from pathlib import Path

import numpy as np
import pytest

from repalign import CompareResult, InputError, write_store
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.results.saved_maps import apply_map, describe_map, read_map, save_result_maps
from repalign.store.open import open_embeddings


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(300, 4))
    y = 2 * x @ np.linalg.qr(rng.standard_normal((4, 4)))[0] + 3
    np.save(tmp_path / "a.npy", x)
    np.save(tmp_path / "b.npy", y)
    return tmp_path / "a.npy", tmp_path / "b.npy"


def saved(pair: tuple[Path, Path], folder: Path) -> list[Path]:
    settings = CompareSettings(held_out=0, n_null=0, n_rotations=0, n_halves=0)
    return save_result_maps(compare(*pair, settings=settings), folder)


def test_every_map_of_a_result_is_saved_and_reads_back(pair, tmp_path: Path) -> None:
    files = saved(pair, tmp_path / "maps")
    assert [path.name for path in files] == [
        f"01-{name}.safetensors"
        for name in ("mean", "permutation", "permutation-scale", "rigid", "linear", "ica")
    ]
    x, y = np.load(pair[0]), np.load(pair[1])
    np.testing.assert_allclose(read_map(files[3]).apply(x), y, atol=1e-9)


def test_a_rigid_map_stretches_alike_in_all_directions(pair, tmp_path: Path) -> None:
    report = describe_map(saved(pair, tmp_path)[3])
    assert report.kind == "rigid"
    assert report.rank == 4
    assert report.smallest_stretch == pytest.approx(2)
    assert report.largest_stretch == pytest.approx(2)
    assert report.metadata["n_rows"] == 300


def test_a_map_is_applied_to_a_file_and_back(pair, tmp_path: Path) -> None:
    rigid = saved(pair, tmp_path)[3]
    forth, back = tmp_path / "forth.h5", tmp_path / "back.h5"
    apply_map(rigid, pair[0], forth)
    apply_map(rigid, forth, back, inverse=True)
    # in double precision, as the rows came
    np.testing.assert_allclose(
        open_embeddings(forth).rows.read(0, 300), np.load(pair[1]), atol=1e-9
    )
    np.testing.assert_allclose(open_embeddings(back).rows.read(0, 300), np.load(pair[0]), atol=1e-9)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_mapped_rows_keep_their_type(pair, tmp_path: Path, kind: str) -> None:
    np.save(tmp_path / "c.npy", np.load(pair[0]).astype(kind))

    apply_map(saved(pair, tmp_path)[2], tmp_path / "c.npy", tmp_path / "out.h5")

    assert open_embeddings(tmp_path / "out.h5").rows.dtype == kind


def test_saved_maps_and_stores_have_the_mode_of_any_new_file(pair, tmp_path: Path) -> None:
    (tmp_path / "any").touch()
    maps = saved(pair, tmp_path)
    apply_map(maps[2], pair[0], tmp_path / "out.h5")

    modes = {path.stat().st_mode for path in (tmp_path / "any", maps[2], tmp_path / "out.h5")}
    assert len(modes) == 1


def test_rows_of_another_width_are_refused(pair, tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.ones((3, 7)))
    with pytest.raises(InputError, match=r"7 columns, .* 4"):
        apply_map(saved(pair, tmp_path)[2], tmp_path / "wide.npy", tmp_path / "out.h5")


def noisy_pair(folder: Path) -> tuple[Path, Path]:
    """Two stores of 120 named rows, of which a linear map of 20 columns is overfitted."""
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(120, 20))
    y = x @ rng.standard_normal((20, 20)) + 4 * rng.standard_normal((120, 20))
    ids = [f"row {number}" for number in range(120)]
    for name, rows in (("a.h5", x), ("b.h5", y)):
        write_store(folder / name, rows, ids=ids)
    return folder / "a.h5", folder / "b.h5"


def error_of(result: CompareResult, split: str) -> float:
    return next(record.error for record in result.records if record.split == split)


@pytest.mark.parametrize("direction", ["forth", "back"])
def test_rows_that_fitted_a_map_are_not_held_out_behind_it(tmp_path: Path, direction: str) -> None:
    source, target = noisy_pair(tmp_path)
    cheap = {"null": 0, "halves": 0, "maps": "linear"}
    result = compare(source, target, **cheap)
    (path,) = save_result_maps(result, tmp_path / "maps")
    moved = tmp_path / "moved.h5"
    if direction == "forth":
        apply_map(path, source, moved)
        again = compare(moved, target, **cheap | {"maps": "identity"})
        assert error_of(again, "in-sample") == pytest.approx(error_of(result, "in-sample"))
    else:
        apply_map(path, target, moved, inverse=True)
        again = compare(moved, source, **cheap | {"maps": "identity"})
    # it said "held-out" of rows that the map was fitted on
    assert {record.split for record in again.records} == {"in-sample"}
    assert any("120 of these 120 " in text for text in again.warnings)


def test_a_map_of_the_training_rows_is_judged_on_the_others(tmp_path: Path) -> None:
    source, target = noisy_pair(tmp_path)
    cheap = {"null": 0, "halves": 0, "seed": 3}
    result = compare(source, target, **cheap, maps="linear", map_rows="training")
    (path,) = save_result_maps(result, tmp_path / "maps")
    apply_map(path, source, tmp_path / "moved.h5")
    again = compare(tmp_path / "moved.h5", target, null=0, halves=0, maps="identity")
    assert error_of(again, "held-out") == pytest.approx(error_of(result, "held-out"))
    assert {r.n_rows for r in again.records if r.split == "held-out"} == {24}
    assert any("96 of these 120 " in text for text in again.warnings)


def test_another_target_than_that_of_the_map_is_split_as_always(tmp_path: Path) -> None:
    source, target = noisy_pair(tmp_path)
    (path,) = save_result_maps(compare(source, target, quick=True, maps="rigid"), tmp_path / "m")
    apply_map(path, source, tmp_path / "moved.h5")
    other = np.random.default_rng(1).standard_normal((120, 20))
    write_store(tmp_path / "c.h5", other, ids=[f"row {number}" for number in range(120)])
    result = compare(tmp_path / "moved.h5", tmp_path / "c.h5", null=0, halves=0, maps="identity")
    assert {record.split for record in result.records} == {"in-sample", "held-out"}


def test_a_map_of_the_training_rows_needs_a_held_out_share() -> None:
    for options in ({"split": 0.0}, {"folds": 3}):
        with pytest.raises(InputError, match="training"):
            compare(np.eye(9), np.eye(9), map_rows="training", **options)
