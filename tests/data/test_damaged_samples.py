"""Damaged images, arrays and sounds: each is read, or refused in one line that names it."""

import gzip
import io
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from repalign.data.images import decode_image
from repalign.data.open_data import open_data
from repalign.data.samples import Kind
from repalign.data.sounds import decode_sound
from repalign.exceptions import InputError
from tests.faults.damage import damaged_bytes

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 8, 6, 3), dtype=np.uint8)


def encoded(form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(PIXELS[0]).save(stream, form, **options)
    return stream.getvalue()


def saved(save: Callable[..., object], *arrays: np.ndarray, **named: np.ndarray) -> bytes:
    stream = io.BytesIO()
    save(stream, *arrays, **named)
    return stream.getvalue()


def recorded(form: str, kind: str) -> bytes:
    soundfile = pytest.importorskip("soundfile")
    stream = io.BytesIO()
    wave = np.random.default_rng(0).standard_normal((900, 2)) * 0.1
    soundfile.write(stream, wave, 16_000, format=form, subtype=kind)
    return stream.getvalue()


IDX = struct.pack(">HBBIIII", 0, 8, 4, *PIXELS.shape) + PIXELS.tobytes()
FILES: dict[str, tuple[Kind, Callable[[], bytes]]] = {
    "x.png": ("image", partial(encoded, "PNG")),
    "x.jpg": ("image", partial(encoded, "JPEG", progressive=True)),
    "x.webp": ("image", partial(encoded, "WEBP")),
    "x.bmp": ("image", partial(encoded, "BMP")),
    "x.tif": ("image", partial(encoded, "TIFF", compression="tiff_lzw")),
    "a.npy": ("image", partial(saved, np.save, PIXELS)),
    "a.npz": ("image", partial(saved, np.savez_compressed, images=PIXELS)),
    "a-ubyte": ("image", lambda: IDX),
    "a-ubyte.gz": ("image", lambda: gzip.compress(IDX)),
    "x.wav": ("audio", partial(recorded, "WAV", "MS_ADPCM")),
    "x.flac": ("audio", partial(recorded, "FLAC", "PCM_16")),
    "x.ogg": ("audio", partial(recorded, "OGG", "VORBIS")),
    "x.mp3": ("audio", partial(recorded, "MP3", "MPEG_LAYER_III")),
    "x.aiff": ("audio", partial(recorded, "AIFF", "PCM_16")),
}


def damages(name: str, whole: bytes, count: int) -> Iterator[bytes]:
    rng = random.Random(name)
    for number in range(count):
        if name == "a.npz" and number % 2:
            yield packed(damaged_bytes(saved(np.save, PIXELS), rng))
        else:
            yield damaged_bytes(whole, rng)


def packed(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("images.npy", content)
    return stream.getvalue()


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("name", FILES)
def test_damaged_samples_are_read_or_refused_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    kind, make = FILES[name]
    (tmp_path / name).write_bytes(whole := make())
    data = str(tmp_path / name if name.startswith("a") else tmp_path)
    assert open_data(data, kind).read(0).sha256
    refusals = []
    for content in damages(name, whole, 60):
        (tmp_path / name).write_bytes(content)
        try:
            source = open_data(data, kind)
            for index in range(len(source)):
                source.read(index)
        except InputError as error:
            refusals.append(str(error))
    assert len(refusals) > 3
    assert all(name in refusal and "\n" not in refusal for refusal in refusals)
    assert "Traceback" not in capfd.readouterr().err


def test_a_header_that_leads_before_its_beginning_is_damage(
    capfd: pytest.CaptureFixture[str],
) -> None:
    content = recorded("AIFF", "PCM_16").replace(b"SSND", b"SXND")
    with pytest.raises(InputError, match=r"x\.aiff"):
        decode_sound(content, "x.aiff")
    assert not capfd.readouterr().err


def test_a_tag_of_another_type_is_damage() -> None:
    content = bytearray(encoded("TIFF"))
    (start,) = struct.unpack("<I", content[4:8])
    offsets = content.index(struct.pack("<H", 273), start)
    content[offsets + 2 : offsets + 4] = struct.pack("<H", 11)
    with pytest.raises(InputError, match=r"x\.tif"):
        decode_image(bytes(content), "x.tif")


def test_a_header_with_keys_of_several_types_is_damage(tmp_path: Path) -> None:
    header = b"{b'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 2)}"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.npy"):
        open_data(str(tmp_path / "a.npy"), "image")
