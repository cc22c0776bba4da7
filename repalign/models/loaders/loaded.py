"""A model that is ready to run, with everything that is known about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from repalign.models.loaders.families import Family
from repalign.models.views.layers import LayerMap, Tap

Call = Callable[[nn.Module, Mapping[str, Tensor]], Tensor | None]
# from the length of a prepared sound to the number of states that a model gives for it
Frames = Callable[[int], int]


@dataclass(frozen=True)
class SoundInput:
    """What a model of sounds takes: the name and the shape of a prepared sound.

    One axis is a wave of any length, two are features of a window of fixed length. ``frames``
    counts the states of a sound; ``is_apart`` says that only sounds of one length may share a
    batch, since padding would change them.
    """

    takes: str
    shape: tuple[int, ...]
    frames: Frames
    is_apart: bool = False


@dataclass(frozen=True)
class Origin:
    """Where the weights came from; holds no absolute path and no user name."""

    model: str
    loader: str
    class_name: str
    files: dict[str, str] = field(default_factory=dict)
    revision: str | None = None
    commit: str | None = None
    licence: str | None = None

    def as_dict(self) -> dict[str, object]:
        """The origin as plain values for a store's spec."""
        return {
            "id": self.model,
            "loader": self.loader,
            "class": self.class_name,
            "revision": self.revision,
            "commit": self.commit,
            "file_sha256": dict(sorted(self.files.items())),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Structure:
    """How a model is run, and which of its tensors are which.

    ``call`` runs one forward pass and returns what the family calls final where no module's
    output is that. ``needs_mask`` says that real tokens of a text would see padding on their
    right if it were not masked. ``sound`` is what a model of sounds takes.
    """

    family: Family
    layers: LayerMap
    call: Call
    needs_mask: bool = False
    prefix_tokens: int = 0
    sound: SoundInput | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedModel(Structure):
    """A module in float32 and eval mode with the rules for running it.

    ``image_size`` is ``(channels, height, width)`` for image models; ``max_length`` and
    ``vocabulary_rows`` are limits of text models. ``config`` is the raw config.json, ``directory``
    where further files (tokenizer, preprocessing) are. ``overwritten`` collects the taps whose
    tensors the model was seen to overwrite after their module gave them. ``prepare`` comes with
    one's own model of images.
    """

    module: nn.Module
    origin: Origin
    channels_last: bool = False
    image_size: tuple[int, int, int] | None = None
    max_length: int | None = None
    vocabulary_rows: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    directory: Path | None = None
    overwritten: set[Tap] = field(default_factory=set)
    prepare: Callable[[Any], Any] | None = None
