"""What is known, and tested, about each family of models: how to run it and its default view."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "image", "audio"]
Pool = Literal["own", "token", "mean", "last", "cls", "patch-mean", "avg"]

POOLS: tuple[Pool, ...] = ("own", "token", "mean", "last", "cls", "patch-mean", "avg")


@dataclass(frozen=True)
class Family:
    """Rules shared by the models of one family.

    ``pools`` are the poolings that mean something there, the default first; ``prefix_tokens``
    is the number of tokens in front of the patches (the class token and its like).
    """

    name: str
    kind: Kind
    pools: tuple[Pool, ...]
    prefix_tokens: int = 0
    final_note: str = ""


DECODER = Family(
    "decoder",
    "text",
    ("token", "last", "mean"),
    final_note="state after the final norm, the one that enters the unembedding",
)
ENCODER = Family(
    "encoder",
    "text",
    ("mean", "cls", "token", "last"),
    final_note="output of the last block, which ends in its own norm",
)
CAUSAL_ENCODER = Family(
    "decoder",
    "text",
    DECODER.pools,
    final_note="output of the last block, which ends in its own norm; tokens see only those before",
)
VIT = Family(
    "vit",
    "image",
    ("patch-mean", "cls", "mean", "token"),
    prefix_tokens=1,
    final_note="patch tokens after the final norm",
)
VIT_MAE = Family(
    "vit-mae",
    "image",
    ("patch-mean", "cls", "mean", "token"),
    prefix_tokens=1,
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
SOUND = Family(
    "sound",
    "audio",
    ("mean", "token", "last"),
    final_note="the model's last_hidden_state",
)


@dataclass(frozen=True)
class Architecture:
    """How transformers loads the encoder of one model type."""

    family: Family
    class_name: str
    prefix_tokens: int | None = None


# What is known beforehand. The structure of any other model type is read from the model itself.
ARCHITECTURES: dict[str, Architecture] = {
    "gpt_neox": Architecture(DECODER, "GPTNeoXModel"),
    "gpt2": Architecture(DECODER, "GPT2Model"),
    "llama": Architecture(DECODER, "LlamaModel"),
    "mistral": Architecture(DECODER, "MistralModel"),
    "qwen2": Architecture(DECODER, "Qwen2Model"),
    "qwen3": Architecture(DECODER, "Qwen3Model"),
    "olmo2": Architecture(DECODER, "Olmo2Model"),
    "bert": Architecture(ENCODER, "BertModel"),
    "roberta": Architecture(ENCODER, "RobertaModel"),
    "xlm-roberta": Architecture(ENCODER, "XLMRobertaModel"),
    "distilbert": Architecture(ENCODER, "DistilBertModel"),
    "vit": Architecture(VIT, "ViTModel"),
    "deit": Architecture(VIT, "DeiTModel", prefix_tokens=2),
    "dinov2": Architecture(VIT, "Dinov2Model"),
    "vit_mae": Architecture(VIT_MAE, "ViTMAEModel"),
    "resnet": Architecture(CNN, "ResNetModel"),
}

# Checkpoints of two encoders: which class each is, by what stands behind `::` in the name.
TOWERS = {
    "clip": {"text": "CLIPTextModel", "vision": "CLIPVisionModel"},
    "siglip": {"text": "SiglipTextModel", "vision": "SiglipVisionModel"},
}
