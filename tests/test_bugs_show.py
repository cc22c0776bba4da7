"""A mistake of our own shows as such, with the file that was read, and is no damaged file."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import torch
from PIL import Image
from safetensors.numpy import save_file
from typer.testing import CliRunner

from repalign.cli.app import app
from repalign.cli.failures import explain
from repalign.data.open_data import open_data
from repalign.engine.cache import Cache
from repalign.exceptions import InputError, StoreError, reading
from repalign.models.capture import make_views, probe_shapes
from repalign.models.load import load_encoder
from repalign.store import open_store, write_store
from repalign.store.open import open_embeddings
from tests.store.formats.test_saved_datasets import save as save_dataset

VALUES = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
Plant = Callable[[str], None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Return what makes a function of ours, by its dotted name, a mistake."""

    def broken(*_: object, **__: object) -> None:
        raise AttributeError("planted")

    return lambda name: monkeypatch.setattr(f"repalign.{name}", broken)


def check_shows(error: BaseException, path: Path) -> None:
    """Check that an exception is the planted one and has a note of the file."""
    assert type(error) is AttributeError
    assert str(error) == "planted"
    assert any(path.name in note for note in error.__notes__)


def save_zarr(path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.open_group(str(path), mode="w").create_array("x", data=VALUES)


def save_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = VALUES


def frame() -> pd.DataFrame:
    return pd.DataFrame(VALUES, columns=list("abcd"))


def save_anndata(path: Path) -> None:
    anndata.AnnData(VALUES).write_h5ad(path)


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a.csv": (lambda path: frame().to_csv(path), "delimited_text._value_blocks"),
    "a.parquet": (lambda path: frame().to_parquet(path), "tables._value_blocks"),
    "a.npy": (lambda path: np.save(path, VALUES), "numpy_files._map_array"),
    "a.npz": (lambda path: np.savez(path, x=VALUES), "numpy_files._map_array"),
    "a.safetensors": (lambda path: save_file({"x": VALUES}, path), "tensors._parse_ids"),
    "a.pt": (lambda path: torch.save(torch.from_numpy(VALUES), path), "tensors._check_stored"),
    "a.hdf5": (save_hdf5, "hdf5_files.read_tree"),
    "a.h5ad": (save_anndata, "array_trees._is_matrix"),
    "a.mat": (
        lambda path: scipy.io.savemat(path, {"x": VALUES}),
        "matlab_files.check_copy",
    ),
    "a.zarr": (save_zarr, "zarr_trees.read_tree"),
    "saved": (lambda path: save_dataset(path, slice(0, 9)), "tables._read_table"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_in_a_reader_of_foreign_files(tmp_path: Path, plant: Plant, name: str) -> None:
    save, function = FOREIGN[name]
    save(tmp_path / name)
    plant(f"store.formats.{function}")

    with pytest.raises(AttributeError) as caught:
        open_embeddings(tmp_path / name)

    check_shows(caught.value, tmp_path / name)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("a.npy", "store.rows.MappedRows._check_size"),
        ("a.hdf5", "store.formats.hdf5_files._read_values"),
        ("a.zarr", "store.formats.zarr_trees.ZarrRows.read"),
    ],
)
def test_where_rows_of_foreign_files_are_read(
    tmp_path: Path, plant: Plant, name: str, function: str
) -> None:
    FOREIGN[name][0](tmp_path / name)
    source = open_embeddings(tmp_path / name)
    plant(function)

    with pytest.raises(AttributeError) as caught:
        source.rows.read(0, 5)

    check_shows(caught.value, tmp_path / name)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("transformers", "models.hf._check_report"),
        ("transformers", "models.trace._text_forward"),
        ("timm", "models.timm._check_arguments"),
        ("timm", "models.checkpoints.check_keys"),
        ("own", "models.custom._try_sizes"),
    ],
)
def test_in_a_loader_of_models(
    tiny: ModuleType, tmp_path: Path, plant: Plant, name: str, function: str
) -> None:
    path = str(tmp_path / name)
    if name == "transformers":
        tiny.save_transformers(tmp_path / name, "gpt_neox")
    elif name == "timm":
        tiny.save_timm(tmp_path / name, "resnet")
    else:
        code = "import torch\ndef make():\n    return torch.nn.Flatten(), lambda image: image\n"
        (tmp_path / "own.py").write_text(code)
        path = f"{tmp_path / 'own.py'}:make"
    plant(function)

    with pytest.raises(AttributeError) as caught:
        load_encoder(path, trust_code=True)

    check_shows(caught.value, tmp_path / name)


def test_in_a_hook_of_a_forward_pass(tiny: ModuleType, tmp_path: Path, plant: Plant) -> None:
    model = load_encoder(str(tiny.save_transformers(tmp_path / "neox", "gpt_neox")))
    (view,) = make_views(model, ("1",))
    plant("models.capture.first_tensor")

    with pytest.raises(AttributeError, match="planted"):
        probe_shapes(model, [view.tap])


@pytest.mark.parametrize("function", ["hdf5._check_structure", "header.columns_of"])
def test_where_a_store_is_opened(tmp_path: Path, plant: Plant, function: str) -> None:
    write_store(tmp_path / "a.h5", VALUES)
    plant(f"store.{function}")

    with pytest.raises(AttributeError) as caught:
        open_store(tmp_path / "a.h5")

    check_shows(caught.value, tmp_path / "a.h5")


def test_where_rows_of_a_store_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_store(tmp_path / "a.h5", VALUES)

    def broken(*_: object) -> None:
        raise KeyError("planted")

    with open_store(tmp_path / "a.h5") as store:
        view = store.view()
        view.read(0, 1)
        monkeypatch.setattr("repalign.store.reader.ColumnReader.read_leaf", broken)
        store.file(0)._columns.clear()
        with pytest.raises(KeyError, match="planted") as caught:
            view.read(0, 20)

    assert any("a.h5" in note for note in caught.value.__notes__)


def save_texts(path: Path) -> Path:
    path.write_text("one\ntwo\n")
    return path


def save_lines(path: Path) -> Path:
    path.write_text('{"text": "one"}\n')
    return path


def save_images(path: Path) -> Path:
    path.mkdir()
    Image.new("RGB", (8, 8)).save(path / "a.png")
    return path


def save_pixels(path: Path) -> Path:
    np.savez(path, images=np.zeros((2, 8, 8), np.uint8))
    return path


def save_sounds(path: Path) -> Path:
    soundfile = pytest.importorskip("soundfile")
    path.mkdir()
    soundfile.write(path / "a.wav", VALUES[:, 0] / 10, 16_000)
    return path


@pytest.mark.parametrize(
    ("name", "kind", "save", "function"),
    [
        ("a.txt", "text", save_texts, "text._decode"),
        ("a.jsonl", "text", save_lines, "text._field"),
        ("images", "image", save_images, "images.io.BytesIO"),
        ("a.npz", "image", save_pixels, "image_arrays.check_images"),
        ("sounds", "audio", save_sounds, "sounds._mixed"),
    ],
)
def test_in_a_reader_of_inputs(
    tmp_path: Path, plant: Plant, name: str, kind: str, save: Callable[[Path], Path], function: str
) -> None:
    path = save(tmp_path / name)
    plant(f"data.{function}")

    with pytest.raises(AttributeError) as caught:
        open_data(str(path), kind).read(0)  # type: ignore[arg-type]

    check_shows(caught.value, path / "a" if path.is_dir() else path)


def test_in_the_cache_of_results(tmp_path: Path, plant: Plant) -> None:
    cache = Cache(tmp_path, 2**30)
    cache.put("key", (1.0, VALUES))
    plant("engine.cache._from_tree")

    with pytest.raises(AttributeError) as caught:
        cache.get("key")

    check_shows(caught.value, tmp_path / "key.result")


BROKEN = """
import sys
import repalign.store.formats.numpy_files as numpy_files
def broken(*_, **__): raise AttributeError("planted")
numpy_files._map_array = broken
from repalign.__main__ import main
main()
"""


def test_the_command_line_asks_for_a_report_that_names_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    words = ["store", "import", str(tmp_path / "a.npy"), "-o", str(tmp_path / "a.h5")]

    ran = subprocess.run(
        [sys.executable, "-c", BROKEN, *words], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stdout) == (70, "")
    (line,) = ran.stderr.splitlines()
    assert "AttributeError" in line
    assert "a.npy" in line
    assert "report" in line


def test_the_traceback_shows_where_a_command_is_called_in_process(
    tmp_path: Path, plant: Plant
) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    plant("store.formats.numpy_files._map_array")

    ran = CliRunner().invoke(
        app, ["store", "import", str(tmp_path / "a.npy"), "-o", str(tmp_path / "a.h5")]
    )

    assert ran.exception is not None
    check_shows(ran.exception, tmp_path / "a.npy")
    assert ran.exc_info is not None


def test_named_errors_of_a_library_are_one_line_and_others_get_a_note_once() -> None:
    with pytest.raises(StoreError, match=r"^a\.h5: .*torn"):  # noqa: SIM117
        with reading("a.h5", OSError, failure=StoreError):
            raise OSError("torn\napart")
    with pytest.raises(InputError, match=r"^ours$"), reading("a.h5", ValueError, InputError):
        raise InputError("ours")
    with pytest.raises(KeyError) as caught, reading("a.h5"), reading("a.h5", OSError):
        raise KeyError("typo")
    assert caught.value.__notes__ == ["while reading a.h5"]
    assert "a.h5" in explain(caught.value)
    with pytest.raises(KeyboardInterrupt), reading("a.h5", Exception):
        raise KeyboardInterrupt
