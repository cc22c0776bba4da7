"""Tiny random checkpoints, saved in the real formats by the libraries that own them."""

import json
from pathlib import Path
from typing import Any

import timm
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn

_SENTENCE = (
    "the cat sat on a mat while rain fell over hills and rivers ran to sea under grey sky "
    "nobody knew why every bird had gone before winter came with snow ice wind stars"
)
WORDS = _SENTENCE.split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
VOCABULARY = len(SPECIAL) + len(WORDS)
TEXTS = (
    "the cat sat on a mat",
    "rain fell",
    "every bird had gone before winter came with snow ice wind stars over grey hills and rivers",
    "why",
    "nobody knew why the cat sat on a mat while rain fell over hills",
    "stars under sky",
    "rivers ran to sea",
    "snow and ice and wind and snow and ice and wind",
    "a bird",
    "the sky came to the sea before the rain",
    "cat",
    "hills and rivers and stars",
)

_TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
_KEY_VALUE = {**_TEXT, "num_key_value_heads": 2}
_ENCODER = {**_TEXT, "pad_token_id": 0}
_IMAGE = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
}
_RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2], "layer_type": "basic"}

# model type → (class, settings of its config)
TRANSFORMERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt_neox": ("GPTNeoX", _TEXT),
    "gpt2": (
        "GPT2",
        {
            "vocab_size": VOCABULARY,
            "n_embd": 32,
            "n_layer": 3,
            "n_head": 4,
            "n_positions": 40,
            "bos_token_id": 0,
            "eos_token_id": 0,
        },
    ),
    "llama": ("Llama", _KEY_VALUE),
    "mistral": ("Mistral", {**_KEY_VALUE, "sliding_window": 8}),
    "qwen2": ("Qwen2", _KEY_VALUE),
    "qwen3": ("Qwen3", {**_KEY_VALUE, "head_dim": 8}),
    "olmo2": ("Olmo2", {**_KEY_VALUE, "pad_token_id": 0, "eos_token_id": 0}),
    "bert": ("Bert", _ENCODER),
    "roberta": ("Roberta", _ENCODER),
    "xlm-roberta": ("XLMRoberta", _ENCODER),
    "distilbert": (
        "DistilBert",
        {
            "vocab_size": VOCABULARY,
            "dim": 32,
            "n_layers": 3,
            "n_heads": 4,
            "hidden_dim": 48,
            "max_position_embeddings": 40,
        },
    ),
    "vit": ("ViT", _IMAGE),
    "deit": ("DeiT", _IMAGE),
    "dinov2": ("Dinov2", _IMAGE),
    "vit_mae": ("ViTMAE", _IMAGE),
    "resnet": ("ResNet", _RESNET),
}
_GROUPED = {**_ENCODER, "num_key_value_heads": 2, "head_dim": 8}
_WORDS = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
# Families that nothing is known of beforehand: kind → (class, settings of its config).
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma": ("Gemma", _GROUPED),
    "gemma2": ("Gemma2", _GROUPED),
    "gemma3_text": ("Gemma3Text", _GROUPED),
    "phi": ("Phi", {**_ENCODER, "bos_token_id": 0, "eos_token_id": 0}),
    "opt": ("OPT", {**_WORDS, "ffn_dim": 48, "word_embed_proj_dim": 32, "eos_token_id": 1}),
    "bloom": ("Bloom", {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 3, "n_head": 4}),
    "mamba": (
        "Mamba",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 3, "state_size": 4},
    ),
    "rwkv": (
        "Rwkv",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "num_hidden_layers": 3,
            "attention_hidden_size": 32,
            "context_length": 64,
        },
    ),
    "t5": (
        "T5",
        {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3}
        | {"num_heads": 4},
    ),
    "bart": (
        "Bart",
        {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 3, "decoder_layers": 1}
        | {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48}
        | {"decoder_ffn_dim": 48, "max_position_embeddings": 40, "pad_token_id": 0}
        | {"bos_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": 2},
    ),
    "deberta-v2": (
        "DebertaV2",
        {**_ENCODER, "relative_attention": True, "position_buckets": 8}
        | {"pos_att_type": ["p2c", "c2p"]},
    ),
    "deberta": (
        "Deberta",
        {**_ENCODER, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
    "phi3": ("Phi3", {**_GROUPED, "bos_token_id": 0, "eos_token_id": 0}),
    "electra": ("Electra", {**_ENCODER, "embedding_size": 16}),
    "albert": ("Albert", {**_ENCODER, "embedding_size": 16}),
    "modernbert": (
        "ModernBert",
        {**_ENCODER, "global_attn_every_n_layers": 2, "local_attention": 8}
        | {"eos_token_id": 3, "bos_token_id": 2, "cls_token_id": 2, "sep_token_id": 3},
    ),
    "esm": (
        "Esm",
        {**_ENCODER, "mask_token_id": 1, "position_embedding_type": "rotary"}
        | {"token_dropout": True},
    ),
    "mpnet": ("MPNet", _ENCODER),
    "data2vec-text": ("Data2VecText", _ENCODER),
    "dinov2_with_registers": ("Dinov2WithRegisters", {**_IMAGE, "num_register_tokens": 2}),
    "dinov3_vit": ("DINOv3ViT", {**_IMAGE, "num_register_tokens": 2}),
    "beit": ("Beit", _IMAGE),
    "data2vec-vision": ("Data2VecVision", _IMAGE),
    "swin": (
        "Swin",
        {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 2], "window_size": 4}
        | {"num_heads": [2, 4]},
    ),
    "swinv2": (
        "Swinv2",
        {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 2], "window_size": 4}
        | {"num_heads": [2, 4]},
    ),
    "dinov3_convnext": (
        "DINOv3ConvNext",
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1], "image_size": 32},
    ),
    "convnext": (
        "ConvNext",
        {"hidden_sizes": [8, 16], "depths": [1, 2], "num_stages": 2, "image_size": 32},
    ),
    "convnextv2": (
        "ConvNextV2",
        {"hidden_sizes": [8, 16], "depths": [1, 2], "num_stages": 2, "image_size": 32},
    ),
    "hiera": (
        "Hiera",
        {"image_size": [64, 64], "embed_dim": 16, "depths": [1, 1, 1, 1]}
        | {"num_heads": [1, 2, 4, 8]},
    ),
    "clip": ("CLIP", {"text_config": {**_WORDS, "intermediate_size": 48}, "vision_config": _IMAGE}),
    "siglip": (
        "Siglip",
        {"text_config": {**_WORDS, "intermediate_size": 48}, "vision_config": _IMAGE},
    ),
}
_SOUND = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": [8, 8, 8],
    "conv_kernel": [10, 8, 4],
    "conv_stride": [5, 8, 8],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "vocab_size": 8,
}
_BY_FRAMES = {"feat_extract_norm": "layer", "do_stable_layer_norm": True}
# Models of sounds: kind → (class, settings of its config).
SOUNDS: dict[str, tuple[str, dict[str, Any]]] = {
    "wav2vec2": ("Wav2Vec2", _SOUND),
    "wav2vec2-layer": ("Wav2Vec2", _SOUND | _BY_FRAMES),
    "hubert": ("Hubert", _SOUND),
    "hubert-layer": ("Hubert", _SOUND | _BY_FRAMES),
    "wavlm": ("WavLM", _SOUND),
    "data2vec-audio": ("Data2VecAudio", _SOUND | {"conv_pos_kernel_size": 5}),
    "whisper": (
        "Whisper",
        {"vocab_size": 40, "d_model": 32, "encoder_layers": 3, "decoder_layers": 1}
        | {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48}
        | {"decoder_ffn_dim": 48, "num_mel_bins": 8, "max_source_positions": 100}
        | {"max_target_positions": 10, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        | {"decoder_start_token_id": 1},
    ),
}
DECODERS = ("gpt_neox", "gpt2", "llama", "mistral", "qwen2", "qwen3", "olmo2")
ENCODERS = ("bert", "roberta", "xlm-roberta", "distilbert")


def shake(module: nn.Module, seed: int) -> nn.Module:
    """Give every parameter and statistic a random value, so that nothing is one or zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if not tensor.is_floating_point():
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            scale = 0.5 if tensor.ndim < 2 else 1.5 / tensor[0].numel() ** 0.5
            tensor.copy_(noise.abs() * 0.5 + 0.5 if "var" in name else noise * scale)
    return module.eval()


def save_tokenizer(directory: Path, *, special: bool = False) -> None:
    """Save a word tokenizer; ``special`` adds [CLS] and [SEP] around every text."""
    vocabulary = {word: index for index, word in enumerate(SPECIAL + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if special:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]"
    )
    wrapped.save_pretrained(directory)


def build_transformers(model_type: str, seed: int = 0) -> Any:
    """Build a tiny transformers encoder with random weights."""
    prefix, settings = TRANSFORMERS[model_type]
    config = getattr(transformers, f"{prefix}Config")(**settings)
    return shake(getattr(transformers, f"{prefix}Model")(config), seed)


def save_other(directory: Path, kind: str, seed: int = 0) -> Any:
    """Save a tiny checkpoint of a family that nothing is known of; returns the whole model."""
    prefix, settings = OTHERS[kind]
    config = getattr(transformers, f"{prefix}Config")(**settings)
    model: Any = shake(getattr(transformers, f"{prefix}Model")(config), seed)
    model.save_pretrained(directory)
    save_tokenizer(directory, special=True)
    return model


def save_transformers(directory: Path, model_type: str, seed: int = 0) -> Path:
    """Save a tiny transformers checkpoint with its tokenizer or preprocessing."""
    model = build_transformers(model_type, seed)
    model.save_pretrained(directory)
    if model_type in DECODERS or model_type in ENCODERS:
        save_tokenizer(directory, special=model_type in ENCODERS)
    else:
        kind = "ConvNextImageProcessor" if model_type == "resnet" else "ViTImageProcessor"
        size = {"shortest_edge": 32} if model_type == "resnet" else {"height": 32, "width": 32}
        settings = {
            "image_processor_type": kind,
            "size": size,
            "resample": 3,
            "crop_pct": 0.875,
            "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225],
        }
        (directory / "preprocessor_config.json").write_text(json.dumps(settings))
    return directory


_TINY_VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 3, "num_heads": 4}
TIMM: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": (
        "vit_tiny_patch16_224",
        _TINY_VIT,
    ),
    "mae": (
        "vit_base_patch16_224.mae",
        {"img_size": 32, "patch_size": 8, "embed_dim": 192, "depth": 3, "num_heads": 3},
    ),
    "qk_norm": (
        "vit_tiny_patch16_224",
        {**_TINY_VIT, "qk_norm": True},
    ),
    "registers": (
        "vit_medium_patch16_reg4_gap_256",
        _TINY_VIT,
    ),
    "siglip": ("vit_base_patch16_siglip_224", _TINY_VIT),
    "cait": ("cait_xxs24_224", _TINY_VIT),
    "xcit": (
        "xcit_nano_12_p16_224",
        {"img_size": 32, "embed_dim": 32, "depth": 3, "num_heads": 4, "patch_size": 8},
    ),
    "convit": ("convit_tiny", {**_TINY_VIT, "local_up_to_layer": 2, "embed_dim": 8}),
    "resnet": ("resnet18", {"channels": [8, 16, 24, 32]}),
    "convnext": ("convnext_atto", {"depths": [1, 1, 1, 1], "dims": [8, 16, 24, 32]}),
    "mobilenet": ("mobilenetv3_small_050", {}),
}


def build_timm(kind: str, seed: int = 0) -> Any:
    """Build a tiny timm model with random weights."""
    architecture, arguments = TIMM[kind]
    model = timm.create_model(architecture, pretrained=False, num_classes=0, **arguments)
    return shake(model, seed)


def save_timm(directory: Path, kind: str, seed: int = 0) -> Path:
    """Save a tiny timm checkpoint as timm's hub does: config.json and model.safetensors."""
    architecture, arguments = TIMM[kind]
    directory.mkdir(parents=True, exist_ok=True)
    config = {
        "architecture": architecture.split(".")[0],
        "num_classes": 0,
        "model_args": arguments,
        "pretrained_cfg": {
            "input_size": [3, 32, 32],
            "interpolation": "bicubic",
            "crop_pct": 0.9,
            "crop_mode": "center",
            "mean": [0.485, 0.456, 0.406],
            "std": [0.229, 0.224, 0.225],
            "license": "apache-2.0",
        },
    }
    (directory / "config.json").write_text(json.dumps(config))
    save_file(build_timm(kind, seed).state_dict(), directory / "model.safetensors")
    return directory


def save_sound_model(directory: Path, kind: str, seed: int = 0) -> Any:
    """Save a tiny model of sounds with its feature extractor; returns the whole model."""
    prefix, settings = SOUNDS[kind]
    config = getattr(transformers, f"{prefix}Config")(**settings)
    model: Any = shake(getattr(transformers, f"{prefix}Model")(config), seed)
    model.save_pretrained(directory)
    if kind == "whisper":
        # windows of two seconds
        extractor: Any = transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=2)
    else:
        extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=True)
    extractor.save_pretrained(directory)
    return model


def save_sounds(directory: Path, seconds: tuple[float, ...], rate: int = 16_000) -> Path:
    """Save sounds of noise as .wav files."""
    import soundfile

    directory.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    for number, length in enumerate(seconds):
        wave = torch.randn(int(length * rate), generator=generator) * 0.1
        soundfile.write(directory / f"{number}.wav", wave.numpy(), rate, subtype="PCM_16")
    return directory
