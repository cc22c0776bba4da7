"""A small masked autoencoder of digits, saved as transformers or as timm saves a ViT-MAE."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repalign.aliases import FloatArray
from repalign.zoo.digits import MEAN, SIZE, STD, draw_digits, load_digits
from repalign.zoo.recipe import Recipe
from repalign.zoo.task import Figures
from repalign.zoo.timm_directory import save_timm_directory
from repalign.zoo.transformers_directory import save_quietly

if TYPE_CHECKING:
    from torch import Generator, Tensor

PATCH = 4
MASK_RATIO = 0.75
DECODER_WIDTH, DECODER_DEPTH, DECODER_HEADS = 48, 1, 4
# timm's and the original code's; transformers' own default is 1e-12
NORM_EPS = 1e-6
_BICUBIC = 3


class MaskedAutoencoderTask:
    """Predict the pixels of the patches that are hidden; mean squared error."""

    def __init__(self, recipe: Recipe) -> None:
        from transformers import ViTMAEConfig, ViTMAEForPreTraining

        self.recipe = recipe
        self._digits = load_digits()
        config = ViTMAEConfig(
            image_size=SIZE,
            patch_size=PATCH,
            num_channels=1,
            hidden_size=recipe.width,
            num_hidden_layers=recipe.depth,
            num_attention_heads=recipe.heads,
            intermediate_size=4 * recipe.width,
            decoder_hidden_size=DECODER_WIDTH,
            decoder_num_hidden_layers=DECODER_DEPTH,
            decoder_num_attention_heads=DECODER_HEADS,
            decoder_intermediate_size=4 * DECODER_WIDTH,
            layer_norm_eps=NORM_EPS,
            mask_ratio=MASK_RATIO,
        )
        self.module: Any = ViTMAEForPreTraining(config)
        initialise(self.module)

    def loss(self, generator: "Generator") -> "Tensor":
        """Return the reconstruction error of a batch under a mask that the generator draws."""
        import torch

        images, _ = draw_digits(self._digits, self.recipe.batch_size, generator)
        noise = torch.rand(len(images), (SIZE // PATCH) ** 2, generator=generator)
        return self.module(pixel_values=images, noise=noise).loss

    def figures(self) -> Figures:
        """Return held-out reconstruction error of hidden patches, and that of the mean image."""
        import torch

        images = self._digits.held_out_images
        noise = torch.rand(
            len(images), (SIZE // PATCH) ** 2, generator=torch.Generator().manual_seed(0)
        )
        with torch.inference_mode():
            made = self.module(pixel_values=images, noise=noise)
            mean = self.module.patchify(self._digits.images.mean(dim=0, keepdim=True))
            gaps = (self.module.patchify(images) - mean).square().mean(dim=-1)
            baseline = float((gaps * made.mask).sum() / made.mask.sum())
        error = float(made.loss)
        return {
            "held_out_error": error,
            "mean_image_error": baseline,
            "held_out_r2": 1 - error / baseline,
            "held_out_images": float(len(images)),
        }

    def save(self, directory: Path) -> None:
        """Write the model: transformers' with its decoder, timm's the encoder alone."""
        if self.recipe.format == "timm":
            state = timm_encoder_state(self.module.vit.state_dict())
            save_timm_directory(directory, "vit_tiny_patch16_224", self._timm_arguments(), state)
            return
        save_quietly(self.module, directory)
        processor = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": SIZE, "width": SIZE},
            "resample": _BICUBIC,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": [MEAN],
            "image_std": [STD],
        }
        path = directory / "preprocessor_config.json"
        path.write_text(json.dumps(processor, indent=2) + "\n", encoding="utf-8")

    def _timm_arguments(self) -> dict[str, Any]:
        return {
            "img_size": SIZE,
            "patch_size": PATCH,
            "in_chans": 1,
            "embed_dim": self.recipe.width,
            "depth": self.recipe.depth,
            "num_heads": self.recipe.heads,
            "global_pool": "token",
        }


def initialise(module: Any) -> None:
    """Initialise as the original code does; transformers leaves the fixed positions at zero."""
    import torch

    for part in module.modules():
        if isinstance(part, torch.nn.Linear):
            torch.nn.init.xavier_uniform_(part.weight)
            torch.nn.init.zeros_(part.bias)
    positions = (module.vit.embeddings.position_embeddings, module.decoder.decoder_pos_embed)
    with torch.no_grad():
        for tokens in (module.vit.embeddings.cls_token, module.decoder.mask_token):
            tokens.normal_(std=0.02)
        for parameter in positions:
            table = sinusoidal_positions(SIZE // PATCH, parameter.shape[-1])
            parameter[0, 1:] = torch.from_numpy(table)


def sinusoidal_positions(side: int, width: int) -> FloatArray:
    """Return sines and cosines of the row and the column of every patch, ``(side², width)``."""
    frequencies = 10_000.0 ** -(np.arange(width // 4) / (width // 4))
    row, column = np.divmod(np.arange(side * side), side)
    angles = [place[:, None] * frequencies for place in (column, row)]
    waves = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
    return np.concatenate(waves, axis=1)


def timm_encoder_state(state: "dict[str, Tensor]") -> "dict[str, Tensor]":
    """Rename the weights of a transformers ViTMAEModel as timm's VisionTransformer has them."""
    import torch

    def part(block: str, name: str) -> "Tensor":
        return torch.cat([state[f"{block}.attention.{p}_proj.{name}"] for p in "qkv"])

    renamed = {
        "cls_token": state["embeddings.cls_token"],
        "pos_embed": state["embeddings.position_embeddings"],
        "patch_embed.proj.weight": state["embeddings.patch_embeddings.projection.weight"],
        "patch_embed.proj.bias": state["embeddings.patch_embeddings.projection.bias"],
        "norm.weight": state["layernorm.weight"],
        "norm.bias": state["layernorm.bias"],
    }
    depth = 1 + max(int(key.split(".")[1]) for key in state if key.startswith("layers."))
    for number in range(depth):
        block = f"layers.{number}"
        for name in ("weight", "bias"):
            renamed[f"blocks.{number}.attn.qkv.{name}"] = part(block, name)
            for old, new in _SAME.items():
                renamed[f"blocks.{number}.{new}.{name}"] = state[f"{block}.{old}.{name}"]
    return renamed


# Names within a block, transformers' to timm's.
_SAME = {
    "layernorm_before": "norm1",
    "attention.o_proj": "attn.proj",
    "layernorm_after": "norm2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}
