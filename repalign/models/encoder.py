"""An encoder: a module that is ready to run, and the rules for running it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from repalign.models.families import Family
from repalign.models.layers import LayerMap

if TYPE_CHECKING:
    from repalign.models.inputs.images import ImageBackend
    from repalign.models.inputs.items import StackedImages

Forward = Callable[[nn.Module, Mapping[str, Tensor]], Tensor | None]


@dataclass(frozen=True)
class SoundInput:
    """What a model of sounds takes.

    Attributes:
        key: The name of the argument.
        shape: Of one prepared sound: one axis is a wave of any length, two are features of a
            window of fixed length.
        states: From the length of a prepared sound to the number of its states.
        needs_equal_lengths: Only sounds of one length may share a batch: padding changes them.
    """

    key: str
    shape: tuple[int, ...]
    states: Callable[[int], int]
    needs_equal_lengths: bool = False


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
        """Return the origin as plain values for a store's spec."""
        return {
            "id": self.model,
            "loader": self.loader,
            "class": self.class_name,
            "revision": self.revision,
            "commit": self.commit,
            "file_sha256": dict(sorted(self.files.items())),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoder:
    """A module in eval mode with the rules for running it.

    Attributes:
        module: The module, in float32 unless it is the user's own.
        origin: Where its weights came from.
        family: What it takes, and which poolings mean something.
        layers: Which of its tensors are which.
        forward: Runs one forward pass; returns the final state where no module's output is that.
        needs_mask: Real tokens of a text would see padding on their right without a mask.
        prefix_tokens: Tokens in front of the patches (the class token and its like).
        channels_last: Maps whose layout their sides do not tell have their channels last.
        sound: What a model of sounds takes.
        image_size: Channels, height and width of the images that it was made for.
        max_length: Most tokens of a text.
        vocabulary_rows: Token ids that it embeds.
        pad_id: The token id that its config names for padding.
        directory: Where further files are (tokenizer, feature extractor).
        image_inputs: Makes the preparation of images that belongs to it.
    """

    module: nn.Module
    origin: Origin
    family: Family
    layers: LayerMap
    forward: Forward
    needs_mask: bool = False
    prefix_tokens: int = 0
    channels_last: bool = False
    sound: SoundInput | None = None
    image_size: tuple[int, int, int] | None = None
    max_length: int | None = None
    vocabulary_rows: int | None = None
    pad_id: int | None = None
    directory: Path | None = None
    image_inputs: "Callable[[ImageBackend], StackedImages] | None" = None
