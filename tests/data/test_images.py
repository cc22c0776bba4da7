"""Images in every form: the same pixels, stable ids, and everything hostile refused."""

import gzip
import hashlib
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from repalign.data.open_data import open_data
from repalign.data.read_options import ReadOptions
from repalign.exceptions import InputError
from repalign.limits import MAX_HELD_BYTES, MAX_PIXELS

FASHION = Path(__file__).parent / "fashion-mnist" / "t10k-first-32-idx3-ubyte.gz"


@pytest.fixture
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (3, 8, 6, 3), dtype=np.uint8)


@pytest.fixture
def tree(tmp_path: Path, pixels: np.ndarray) -> Path:
    root = tmp_path / "tree"
    for name, array in zip(("b/x.png", "a.png", "b/c/y.bmp"), pixels, strict=True):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(array).save(path)
    return root


def test_a_tree_is_read_in_order_with_paths_as_ids(tree: Path, pixels: np.ndarray) -> None:
    source = open_data(str(tree), "image")
    samples = [source.read(k) for k in range(len(source))]
    assert [sample.id for sample in samples] == ["a.png", "b/c/y.bmp", "b/x.png"]
    np.testing.assert_array_equal(np.asarray(samples[0].value), pixels[1])
    assert samples[0].sha256 == hashlib.sha256((tree / "a.png").read_bytes()).digest()


def test_a_list_names_images_relative_to_itself(tree: Path, pixels: np.ndarray) -> None:
    listing = tree / "list.txt"
    listing.write_text("b/x.png\tlabel\n\na.png\n")
    source = open_data(str(listing), "image")
    assert [source.read(k).id for k in range(2)] == ["b/x.png", "a.png"]
    np.testing.assert_array_equal(np.asarray(source.read(0).value), pixels[0])
    listing.write_text("gone.png\n")
    with pytest.raises(InputError, match=r"list\.txt .*'gone\.png'"):
        open_data(str(listing), "image")


@pytest.mark.parametrize("channels", [None, 1, 3])
def test_npz_and_idx_give_the_pixels(tmp_path: Path, pixels: np.ndarray, channels) -> None:
    array = pixels if channels == 3 else pixels[..., 0] if channels is None else pixels[..., :1]
    np.savez(tmp_path / "a.npz", other=np.zeros(2), images=array)
    source = open_data(str(tmp_path / "a.npz"), "image")
    assert len(source) == 3
    read = np.asarray(source.read(2).value)
    np.testing.assert_array_equal(read, array[2].squeeze() if channels == 1 else array[2])
    assert source.read(0).sha256 != source.read(1).sha256
    if channels is None:
        header = struct.pack(">HBBIII", 0, 8, 3, *array.shape)
        (tmp_path / "raw-ubyte").write_bytes(header + array.tobytes())
        with gzip.open(tmp_path / "z-ubyte.gz", "wb") as file:
            file.write(header + array.tobytes())
        for name in ("raw-ubyte", "z-ubyte.gz"):
            idx = open_data(str(tmp_path / name), "image")
            np.testing.assert_array_equal(np.asarray(idx.read(1).value), array[1])


def test_idx_files_as_fashion_mnist_ships_them() -> None:
    source = open_data(str(FASHION), "image")
    assert len(source) == 32
    boot = np.asarray(source.read(0).value)
    assert boot.shape == (28, 28)
    assert boot.sum() == 33456  # of the first test image in the published file
    assert not boot[0].any()


def test_digits_are_built_in() -> None:
    source = open_data("digits", "image")
    assert len(source) == 1797
    image = np.asarray(source.read(0).value)
    assert image.shape == (8, 8)
    assert image.max() == 239  # grey level 15 of 16
    assert source.read(5).id == "5"


def png_of_size(width: int, height: int) -> bytes:
    """A PNG that only announces its size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def deep(path: Path) -> None:
    Image.fromarray(np.zeros((4, 4), dtype=np.uint16)).save(path, format="PNG")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut, r"a.png .*damaged"),
        (lambda path: path.write_bytes(b"GIF89a"), r"a.png .*known format \(BMP"),
        (lambda path: path.write_bytes(b""), r"a.png .*known format"),
        (deep, r"a.png .*I;16"),
        (lambda path: path.write_bytes(png_of_size(8000, 8000)), rf"8000×8000 .* {MAX_PIXELS}"),
        (lambda path: path.write_bytes(png_of_size(10_000, 10_000)), r"10000×10000"),
        (lambda path: path.write_bytes(png_of_size(60_000, 60_000)), r"a.png .*too large"),
    ],
)
def test_hostile_and_damaged_images_get_one_line(
    tree: Path, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(tree / "a.png")
    source = open_data(str(tree), "image")
    with pytest.raises(InputError, match=message):
        source.read(0)


@pytest.mark.parametrize(
    ("arrays", "column", "message"),
    [
        (
            {"images": np.zeros((2, 4, 4))},
            None,
            r"float64 .*\(2, 4, 4\).* uint8",
        ),
        ({"images": np.zeros((2, 4), np.uint8)}, None, r"\(2, 4\)"),
        (
            {"x_train": np.zeros((2, 4, 4), np.uint8)},
            None,
            "images .*a.npz.* x_tr",
        ),
        ({"images": np.zeros((2, 4, 4), np.uint8)}, "y", r"\by\b.* a.npz.* images"),
    ],
)
def test_archives_without_images_get_one_line(tmp_path: Path, arrays, column, message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=message):
        open_data(str(tmp_path / "a.npz"), "image", ReadOptions(column=column))


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match=r"a\.npz::images .*object"):
        open_data(str(tmp_path / "a.npz"), "image")


def npy_of(shape: object, content: bytes = b"") -> bytes:
    """An array of bytes with a header of one's own."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"", "readable"),
        (npy_of((2, 4, 4), bytes(32))[:40], "readable"),
        (npy_of("((((", bytes(32)), "readable"),
        (npy_of((2, 4, 4), bytes(31)), "readable"),
        (npy_of((2, 0, 4)), "pixels"),
        (npy_of((-1, 4, 4), bytes(32)), "pixels"),
        (npy_of((1, 10**5, 10**5)), "pixels"),
        (npy_of((10**5, 8000, 6000)), None),
        (npy_of((2**40, 8, 8)), None),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_wrong_arrays_get_one_line_before_memory_is_taken(
    tmp_path: Path, content: bytes, key: str | None, packed: bool
) -> None:
    path = tmp_path / ("a.npz" if packed else "a.npy")
    path.write_bytes(content)
    if packed:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("images.npy", content)
    with pytest.raises(InputError, match=key or ("memory" if packed else "readable")) as failure:
        open_data(str(path), "image")
    assert path.name in str(failure.value)


def test_an_archive_that_expands_to_more_than_is_held_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", npy_of((MAX_HELD_BYTES // 64 + 1, 8, 8), bytes(2**16)))
    with pytest.raises(InputError, match="memory"):
        open_data(str(tmp_path / "a.npz"), "image")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "IDX"),
        (struct.pack(">HBBI", 0, 8, 1, 5) + bytes(5), "kind 8, 1 dim"),
        (struct.pack(">HBBIII", 0, 8, 3, 9, 9, 9) + bytes(5), "729 bytes"),
        (struct.pack(">HBBIII", 0, 8, 3, 1, 2, 2) + bytes(5), "4 bytes"),
        (struct.pack(">HBBIII", 0, 8, 3, *[2**31] * 3) + bytes(5), "bytes"),
    ],
)
def test_wrong_idx_files_get_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x-ubyte").write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_data(str(tmp_path / "x-ubyte"), "image")


def test_other_files_and_empty_directories(tmp_path: Path) -> None:
    (tmp_path / "x.zip").touch()
    with pytest.raises(InputError, match=r"x\.zip"):
        open_data(str(tmp_path / "x.zip"), "image")
    with pytest.raises(InputError, match=r"no files.* \.bmp"):
        open_data(str(tmp_path), "image")


class FakeRows:
    """What of a data set of the datasets library is used."""

    column_names = ("image", "name")
    _fingerprint = "f"

    def __init__(self, rows: list[dict[str, object]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, object]:
        return self._rows[index]

    def cast_column(self, _column: str, _feature: object) -> "FakeRows":
        return self


def test_rows_of_data_sets_without_an_image_or_an_id_are_refused(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = {"bytes": (tree / "a.png").read_bytes(), "path": None}
    rows = [{"image": image, "name": "a"}, {"image": None, "name": "b"}]
    rows += [{"image": {"bytes": None, "path": "x"}, "name": "c"}, {"image": image, "name": None}]
    library = SimpleNamespace(
        load_dataset=lambda *_, **__: FakeRows(rows), Image=lambda decode: None
    )
    monkeypatch.setitem(sys.modules, "datasets", library)
    source = open_data("datasets:x", "image", ReadOptions(id_column="name"))
    assert source.read(0).id == "a"
    for index in (1, 2, 3):
        with pytest.raises(InputError, match=f"row {index}"):
            source.read(index)
