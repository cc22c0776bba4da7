"""From sounds to a model's input: its own rate, and the feature extractor beside it."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repalign.exceptions import InputError, ModelError, reading
from repalign.limits import MAX_SOUND_VALUES, SOUND_RATES
from repalign.models.loaders.boundary import MODEL_ERRORS
from repalign.models.loaders.files import read_json
from repalign.models.loaders.loaded import LoadedModel, SoundInput
from repalign.models.structure.sounds import MASK

_EXTRACTORS = ("Wav2Vec2FeatureExtractor", "WhisperFeatureExtractor")
_SIZES = {
    "sampling_rate": SOUND_RATES,
    "feature_size": (1, 1024),
    "hop_length": (1, 2**13),
    "chunk_length": (1, 1800),
    "n_fft": (2, 2**13),
}
_FILES = ("preprocessor_config.json", "processor_config.json")


@dataclass(frozen=True, eq=False)
class Prepared:
    """One sound as the model takes it; the first ``length`` of its last axis are the sound."""

    values: NDArray[np.float32]
    length: int
    is_cut: bool


@dataclass(frozen=True, eq=False)
class SoundEncoder:
    """The feature extractor of a model; sounds are brought to its rate by polyphase filters."""

    extractor: Any
    sound: SoundInput

    @property
    def rate(self) -> int:
        """Samples a second that the model takes."""
        return int(self.extractor.sampling_rate)

    def __call__(self, wave: NDArray[np.float32], rate: int) -> Prepared:
        """Resample a wave and extract its features, alone and without padding of its own."""
        wave = resample(wave, rate, self.rate)
        name = type(self.extractor).__name__
        with reading(name, *MODEL_ERRORS, failure=ModelError, problem="cannot take a sound"):
            found = self.extractor(wave, sampling_rate=self.rate, return_tensors="np")
        if self.sound.takes not in found:
            raise ModelError(f"{name} gives no {self.sound.takes}, which the model takes")
        values = np.asarray(found[self.sound.takes][0], dtype=np.float32)
        if len(self.sound.shape) == 1:
            return Prepared(values, len(wave), is_cut=False)
        # a window of fixed length: what is longer was cut, what is shorter padded by silence
        steps = min(values.shape[-1], -(-len(wave) // self.extractor.hop_length))
        return Prepared(values, steps, is_cut=len(wave) > self.extractor.n_samples)

    def as_dict(self) -> dict[str, object]:
        """The preparation as plain values for a store's spec."""
        plain = (bool, int, float, str, type(None))
        settings = self.extractor.to_dict().items()
        return {
            "channels": "mean",
            "resampling": "scipy.signal.resample_poly",
            "extractor": type(self.extractor).__name__,
            "settings": {key: value for key, value in settings if isinstance(value, plain)},
        }


def pad_sounds(sounds: Sequence[Prepared], sound: SoundInput) -> tuple[dict[str, Tensor], Tensor]:
    """Pad sounds on the right; returns the model's inputs and the states of each, on the host.

    There is a mask where there is padding.
    """
    width = max(one.values.shape[-1] for one in sounds)
    values = np.zeros((len(sounds), *sounds[0].values.shape[:-1], width), dtype=np.float32)
    for row, one in enumerate(sounds):
        values[row, ..., : one.values.shape[-1]] = one.values
    inputs = {sound.takes: torch.from_numpy(values)}
    if any(one.values.shape[-1] < width for one in sounds):
        real = np.array([one.length for one in sounds])
        inputs[MASK] = torch.from_numpy((np.arange(width) < real[:, None]).astype(np.int64))
    return inputs, torch.tensor([sound.frames(one.length) for one in sounds])


def resample(wave: NDArray[np.float32], rate: int, wanted: int) -> NDArray[np.float32]:
    """Bring a wave to another rate; as it is where the rates are equal.

    Raises InputError for a sound that becomes too long.
    """
    if rate == wanted:
        return wave
    from scipy.signal import resample_poly

    if len(wave) * wanted > MAX_SOUND_VALUES * rate:
        raise InputError(
            f"a sound of {len(wave) / rate:.0f} s becomes more than {MAX_SOUND_VALUES} samples at "
            f"the model's {wanted} a second; cut it"
        )
    divisor = math.gcd(rate, wanted)
    return resample_poly(wave, wanted // divisor, rate // divisor).astype(np.float32)


def load_sound_encoder(model: LoadedModel) -> SoundEncoder:
    """Load the feature extractor beside a model.

    Raises ModelError when there is none, or one that does not fit the model.
    """
    import transformers

    assert model.sound is not None
    name = model.origin.model
    config = _config(model)
    kind = config.get("feature_extractor_type")
    if kind not in _EXTRACTORS:
        raise ModelError(
            f"{name} uses the feature extractor {kind!r}, which is not supported; expected "
            f"{' or '.join(_EXTRACTORS)}"
        )
    made: Any = getattr(transformers, str(kind))
    numbers = _numbers(config, made, name)
    shape: tuple[int, ...] = (numbers["sampling_rate"],)
    if "n_fft" in numbers:
        steps = numbers["chunk_length"] * numbers["sampling_rate"] // numbers["hop_length"]
        shape = numbers["feature_size"], steps
    if len(shape) != len(model.sound.shape) or (len(shape) == 2 and shape != model.sound.shape):
        raise ModelError(
            f"the feature extractor in {name} gives {shape} for a second of sound, the model takes "
            f"{model.sound.shape}: it belongs to another model"
        )
    problem = "its feature extractor cannot be used"
    with reading(name, *MODEL_ERRORS, failure=ModelError, problem=problem):
        extractor = made.from_dict(dict(config))
    encoder = SoundEncoder(extractor, model.sound)
    encoder(np.zeros(encoder.rate, np.float32), encoder.rate)
    return encoder


def _numbers(config: Mapping[str, Any], made: Any, name: str) -> dict[str, int]:
    """Return the sizes that a feature extractor is built with, its own where nothing is said.

    Raises ModelError for a size that no extractor has.
    """
    numbers = {}
    for key, parameter in inspect.signature(made).parameters.items():
        if key in _SIZES:
            least, most = _SIZES[key]
            number = config.get(key, parameter.default)
            if type(number) is not int or not least <= number <= most:
                raise ModelError(
                    f"the feature extractor in {name} says {key} {number!r}; expected {least} to "
                    f"{most}"
                )
            numbers[key] = number
    return numbers


def _config(model: LoadedModel) -> dict[str, Any]:
    for file in _FILES:
        if model.directory is not None and (model.directory / file).is_file():
            config = read_json(model.directory / file)
            inner = config.get("feature_extractor")
            return inner if isinstance(inner, dict) else config
    raise ModelError(
        f"{model.origin.model} comes without {_FILES[0]}, which says how sounds are prepared; put "
        "the one of its family there"
    )
