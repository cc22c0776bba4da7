"""Sounds that strangers made: what their headers say is bounded before anything is decoded."""

import io

import numpy as np
import pytest

from repalign.data.sounds import MAX_SECONDS, decode_sound
from repalign.exceptions import InputError

soundfile = pytest.importorskip("soundfile")


def silence(seconds: float, *, rate: int = 8000, channels: int = 1, form: str = "FLAC") -> bytes:
    stream = io.BytesIO()
    values = np.zeros((int(seconds * rate), channels), dtype="int16")
    soundfile.write(stream, values, rate, format=form)
    return stream.getvalue()


def test_channels_are_averaged() -> None:
    sound = decode_sound(silence(0.5, channels=2), "x.flac")
    assert (sound.values.shape, sound.rate) == ((4000,), 8000)


def test_a_few_bytes_of_silence_do_not_fill_the_memory(monkeypatch) -> None:
    packed = silence(1, rate=655_350, channels=8)
    assert len(packed) < 10_000
    monkeypatch.setattr("repalign.data.sounds.MAX_SOUND_VALUES", 2**22)
    with pytest.raises(InputError, match=r"x\.flac .*5242800.* 4194304"):
        decode_sound(packed, "x.flac")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (silence(MAX_SECONDS + 1, rate=1000), "1801.* 1800"),
        (silence(0.01, channels=65, form="WAV"), "65 channels"),
        (silence(1, rate=999, form="WAV"), "999 samples"),
        (silence(0), "no sound|readable"),
        (b"RIFF", "readable"),
    ],
)
def test_what_no_sound_is_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        decode_sound(raw, "x")
