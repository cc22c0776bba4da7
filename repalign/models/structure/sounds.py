"""How a model of sounds runs, read from passes over noise."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from repalign.exceptions import ModelError
from repalign.models.loaders.boundary import running
from repalign.models.loaders.families import SOUND
from repalign.models.loaders.loaded import Call, Frames, SoundInput, Structure
from repalign.models.structure.seen import Seen, last_state

# Half a second at 16 kHz, and a shorter sound beside it.
_LONG, _SHORT = 8000, 5000
# of the root mean square; what padding changes is far above, float32 rounds far below
_SAME = 1e-3
MASK = "sound_mask"


def read_sound_structure(module: Any, name: str) -> Structure:
    """Find out how a model of sounds runs, by passes over noise.

    A model that takes waves gets a mask for the padding; where the rows of a sound change with
    its padding nevertheless (a norm over time, as in wav2vec2-base), only sounds of one length
    share a batch. Raises ModelError when it does not give the states that it says.
    """
    shape = _shape(module)
    noise = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    call, frames = _call(module.main_input_name), _frames(module, name)
    seen = Seen.of(module, lambda: call(module, {module.main_input_name: noise}))
    last, expected = seen.returned, frames(shape[-1])
    if last is None or last.shape[:2] != (2, expected):
        found = None if last is None else tuple(last.shape)
        raise ModelError(
            f"{name} returns {found} for 2 sounds, expected {expected} states for each; it is no "
            "encoder of sounds"
        )
    sound = SoundInput(
        module.main_input_name, shape, frames, len(shape) == 1 and _is_apart(module, noise, frames)
    )
    layers = seen.layers(module, (2, expected))
    return Structure(family=SOUND, layers=layers, call=call, sound=sound)


def _shape(module: Any) -> tuple[int, ...]:
    """Shape of one prepared sound: a wave, or the features of a window of fixed length."""
    if module.main_input_name == "input_values":
        return (_LONG,)
    config = module.config
    return config.num_mel_bins, 2 * config.max_source_positions


def _frames(module: Any, name: str) -> Frames:
    if not hasattr(module, "_get_feat_extract_output_lengths"):
        raise ModelError(
            f"{name} does not tell how many states it gives for a sound; take a model of the "
            "wav2vec2, HuBERT, WavLM or Whisper families"
        )

    def frames(length: int) -> int:
        return max(0, int(module._get_feat_extract_output_lengths(torch.tensor([length]))[0]))

    return frames


def _call(takes: str) -> Call:
    def call(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
        plain = {takes: inputs[takes]}
        if MASK in inputs:
            plain["attention_mask"] = inputs[MASK]
        with running(module):
            returned = module(**plain)
        return last_state(returned)

    return call


def _is_apart(module: Any, noise: Tensor, frames: Frames) -> bool:
    """Whether the states of a short sound change when a longer one stands in its batch."""
    mask = torch.ones(noise.shape, dtype=torch.int64)
    mask[1, _SHORT:] = 0
    call, real = _call("input_values"), frames(_SHORT)
    with torch.no_grad():
        together = call(module, {"input_values": noise * mask, MASK: mask})
        alone = call(module, {"input_values": noise[1:, :_SHORT]})
    assert together is not None
    assert alone is not None
    gap = (together[1, :real] - alone[0]).abs().max() / alone.square().mean().sqrt()
    return not bool(gap < _SAME)
