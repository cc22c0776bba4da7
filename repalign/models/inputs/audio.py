"""From sounds to a model's input, by the feature extractor in its directory."""

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
from repalign.models.checkpoints import read_json
from repalign.models.encoder import MODEL_ERRORS, Encoder, SoundInput
from repalign.models.inputs.items import CHECKED, Inputs, Item, check_lengths

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
class AudioInputs(Inputs):
    """The feature extractor of a model; sounds are brought to its rate by polyphase filters."""

    extractor: Any
    sound: SoundInput
    key: str
    longest: str
    needs_equal_lengths: bool
    unit = "sounds"
    shard_limit = 64  # they are held in memory

    @property
    def rate(self) -> int:
        """Values a second that the model takes."""
        return int(self.extractor.sampling_rate)

    def prepare(self, value: Any) -> Item:
        """Resample a sound and extract its features, alone and without padding.

        ``length`` counts what is real of the last axis.
        """
        wave = resample(value.values, value.rate, self.rate)
        name = type(self.extractor).__name__
        with reading(name, *MODEL_ERRORS, failure=ModelError, problem="cannot take a sound"):
            features = self.extractor(wave, sampling_rate=self.rate, return_tensors="np")
        if self.key not in features:
            raise ModelError(f"{name} gives no {self.key}, which the model takes")
        values = np.asarray(features[self.key][0], dtype=np.float32)
        if len(self.sound.shape) == 1:
            return Item(values, len(wave))
        # a window of fixed length: what is longer was cut, what is shorter padded by silence
        steps = min(values.shape[-1], -(-len(wave) // self.extractor.hop_length))
        return Item(values, steps, is_cut=len(wave) > self.extractor.n_samples)

    def states(self, item: Item, sample: str) -> int:
        """Return the number of states that the model gives for a sound.

        Raises InputError for a sound that is too short.
        """
        count = self.sound.states(item.length)
        if count == 0:
            raise InputError(
                f"the sound of sample {sample} is too short for this model, which gives no "
                "state for it; remove it from the data"
            )
        return count

    def default_budget(self, device: str) -> int:
        """Return the states of a batch on a kind of device."""
        return 1024 if device == "cpu" else 32768

    def collate(self, items: Sequence[Item]) -> tuple[dict[str, Tensor], Tensor]:
        """Pad sounds on the right.

        Returns the model's inputs, with a mask where there is padding, and the states of each,
        on the host.
        """
        width = max(item.values.shape[-1] for item in items)
        values = np.zeros((len(items), *items[0].values.shape[:-1], width), dtype=np.float32)
        for row, item in enumerate(items):
            values[row, ..., : item.values.shape[-1]] = item.values
        inputs = {self.key: torch.from_numpy(values)}
        if any(item.values.shape[-1] < width for item in items):
            real = np.array([item.length for item in items])
            mask = (np.arange(width) < real[:, None]).astype(np.int64)
            inputs["attention_mask"] = torch.from_numpy(mask)
        return inputs, torch.tensor([self.sound.states(item.length) for item in items])

    def check_items(self, items: Sequence[Item]) -> list[Item]:
        """Return short sounds for the check of batches."""
        if len(self.sound.shape) > 1:
            return [items[k % len(items)] for k in range(CHECKED)]
        length = self.sound.shape[-1]
        if not self.needs_equal_lengths:
            return [item for item in check_lengths(items, length) if self.sound.states(item.length)]
        length = min(length, *(item.length for item in items[:CHECKED]))
        return [Item(item.values[:length], length) for item in items[:CHECKED]]

    def as_dict(self) -> dict[str, object]:
        """Return the preparation as plain values for a store's spec."""
        plain = (bool, int, float, str, type(None))
        settings = self.extractor.to_dict().items()
        return {
            "channels": "mean",
            "resampling": "scipy.signal.resample_poly",
            "extractor": type(self.extractor).__name__,
            "settings": {key: value for key, value in settings if isinstance(value, plain)},
        }

    def __str__(self) -> str:
        """Describe the preparation in a line."""
        return f"{type(self.extractor).__name__} at {self.rate} Hz"


def resample(wave: NDArray[np.float32], rate: int, target: int) -> NDArray[np.float32]:
    """Bring a wave to another rate; as it is where the rates are equal.

    Raises InputError for a sound that becomes too long.
    """
    if rate == target:
        return wave
    from scipy.signal import resample_poly

    if len(wave) * target > MAX_SOUND_VALUES * rate:
        raise InputError(
            f"a sound of {len(wave) / rate:.0f} s becomes more than {MAX_SOUND_VALUES} samples at "
            f"the model's {target} a second; cut it"
        )
    divisor = math.gcd(rate, target)
    return resample_poly(wave, target // divisor, rate // divisor).astype(np.float32)


def load_audio_inputs(encoder: Encoder) -> AudioInputs:
    """Load the feature extractor in a model's directory.

    Raises ModelError when there is none, or one that does not fit the model.
    """
    import transformers

    sound, name = encoder.sound, encoder.origin.model
    assert sound is not None
    config = _extractor_config(encoder)
    kind = config.get("feature_extractor_type")
    if kind not in _EXTRACTORS:
        raise ModelError(
            f"{name} uses the feature extractor {kind!r}, which is not supported; expected "
            f"{' or '.join(_EXTRACTORS)}"
        )
    extractor_class: Any = getattr(transformers, str(kind))
    numbers = _numbers(config, extractor_class, name)
    shape: tuple[int, ...] = (numbers["sampling_rate"],)
    if "n_fft" in numbers:
        steps = numbers["chunk_length"] * numbers["sampling_rate"] // numbers["hop_length"]
        shape = numbers["feature_size"], steps
    if len(shape) != len(sound.shape) or (len(shape) == 2 and shape != sound.shape):
        raise ModelError(
            f"the feature extractor in {name} gives {shape} for a second of sound, the model takes "
            f"{sound.shape}: it belongs to another model"
        )
    problem = "its feature extractor cannot be used"
    with reading(name, *MODEL_ERRORS, failure=ModelError, problem=problem):
        extractor = extractor_class.from_dict(dict(config))
        extractor(
            np.zeros(numbers["sampling_rate"], np.float32),
            sampling_rate=numbers["sampling_rate"],
            return_tensors="np",
        )
    return AudioInputs(
        extractor,
        sound,
        key=sound.key,
        longest=f"{getattr(extractor, 'chunk_length', 0)} s",
        needs_equal_lengths=sound.needs_equal_lengths,
    )


def _numbers(config: Mapping[str, Any], extractor_class: Any, name: str) -> dict[str, int]:
    """Return the sizes that a feature extractor is built with, its defaults included.

    Raises ModelError for a size that no extractor has.
    """
    numbers = {}
    for key, parameter in inspect.signature(extractor_class).parameters.items():
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


def _extractor_config(encoder: Encoder) -> dict[str, Any]:
    for file in _FILES:
        if encoder.directory is not None and (encoder.directory / file).is_file():
            config = read_json(encoder.directory / file)
            inner = config.get("feature_extractor")
            return inner if isinstance(inner, dict) else config
    raise ModelError(
        f"{encoder.origin.model} comes without {_FILES[0]}, which says how sounds are prepared; "
        "put the one of its family there"
    )
