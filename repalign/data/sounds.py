"""Sounds from files, decoded by soundfile with limits; channels are averaged."""

import io
from typing import Any

from repalign.data.samples import Sound
from repalign.exceptions import InputError, MissingExtraError, first_line
from repalign.limits import MAX_SOUND_VALUES, SOUND_RATES

ENDINGS = (".aif", ".aiff", ".flac", ".mp3", ".oga", ".ogg", ".wav")
MAX_SECONDS = 1800
_MOST_CHANNELS = 64


def decode_sound(raw: bytes, name: str) -> Sound:
    """Decode a sound completely, within limits of length, rate and channels.

    Raises InputError for other formats, damaged files, more than half an hour, and values that
    are not numbers; MissingExtraError without the package soundfile.
    """
    soundfile = _soundfile()
    try:
        file = soundfile.SoundFile(_Bytes(raw))
    except (soundfile.LibsndfileError, TypeError, ValueError) as error:
        raise _unreadable(name, error) from error
    with file:
        _check(file, name)
        try:
            # a header may promise more than the file holds; no more than the limit is made
            values = file.read(MAX_SECONDS * file.samplerate, dtype="float32", always_2d=True)
        except (soundfile.LibsndfileError, RuntimeError, ValueError) as error:
            raise _unreadable(name, error) from error
        return Sound(_mixed(values, name), int(file.samplerate))


class _Bytes(io.BytesIO):
    """Bytes that stay where they are when a damaged header leads before their beginning.

    An exception cannot pass through the library, which would print it.
    """

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return super().seek(offset, whence)
        except ValueError:
            return self.tell()


def _unreadable(name: str, error: Exception) -> InputError:
    reason = first_line(error).removeprefix("Error opening ")
    return InputError(f"{name} is not a readable sound: {reason}")


def _soundfile() -> Any:
    try:
        import soundfile
    except (ImportError, OSError) as error:  # or its library is not there
        raise MissingExtraError("soundfile", extra="audio", purpose="reading sounds") from error
    return soundfile


def _check(file: Any, name: str) -> None:
    least, most = SOUND_RATES
    if not least <= file.samplerate <= most:
        raise InputError(
            f"{name} has {file.samplerate} samples a second; {least} to {most} are read"
        )
    if file.channels > _MOST_CHANNELS:
        raise InputError(f"{name} has {file.channels} channels; at most {_MOST_CHANNELS} are read")
    if file.frames > MAX_SECONDS * file.samplerate:
        seconds = file.frames / file.samplerate
        raise InputError(f"{name} lasts {seconds:.0f} s; at most {MAX_SECONDS} s are read: cut it")
    if file.frames * file.channels > MAX_SOUND_VALUES:
        raise InputError(
            f"{name} expands to {file.frames * file.channels} values; at most {MAX_SOUND_VALUES} "
            "are read: cut it, or take fewer channels or samples a second"
        )


def _mixed(values: Any, name: str) -> Any:
    import numpy as np

    if len(values) == 0:
        raise InputError(f"{name} holds no sound; remove it from the data")
    if not np.isfinite(values).all():
        raise InputError(
            f"{name} holds values that are not finite numbers; record or convert it anew"
        )
    return values.mean(1, dtype=np.float64).astype(np.float32)
