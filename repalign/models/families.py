"""Families of encoders: what they take, and how their states become rows."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "image", "audio"]
Pool = Literal["own", "token", "mean", "last", "cls", "patch-mean", "avg"]

POOLS: tuple[Pool, ...] = ("own", "token", "mean", "last", "cls", "patch-mean", "avg")


@dataclass(frozen=True)
class Family:
    """Rules shared by the models of one family.

    ``pools`` are the poolings that mean something there, the default first; ``final_note`` says
    which state the layer ``final`` is.
    """

    name: str
    kind: Kind
    pools: tuple[Pool, ...]
    final_note: str = "the model's last_hidden_state"


DECODER = Family("decoder", "text", ("token", "last", "mean"))
ENCODER = Family("encoder", "text", ("mean", "cls", "token", "last"))
VIT = Family(
    "vit",
    "image",
    ("patch-mean", "cls", "mean", "token"),
    final_note="patch tokens after the final norm",
)
VIT_MAE = Family(
    "vit-mae",
    "image",
    ("patch-mean", "cls", "mean", "token"),
    final_note="unmasked patch tokens after the final norm",
)
CNN = Family(
    "cnn",
    "image",
    ("avg", "token"),
    final_note="what enters the classifier (for a ResNet the global average pool)",
)
SENTENCE = Family(
    "sentence",
    "text",
    ("own",),
    final_note="the vector of a text, by the model's own pooling and what follows it",
)
SOUND = Family("sound", "audio", ("mean", "token", "last"))
CUSTOM = Family(
    "own", "image", ("mean", "token", "cls", "last"), final_note="what the module returns"
)
