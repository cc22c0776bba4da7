"""A small GPT-NeoX language model with its own tokenizer."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repalign.zoo.recipe import Recipe
from repalign.zoo.shakespeare import held_out_text, training_text
from repalign.zoo.task import Figures
from repalign.zoo.transformers_directory import save_quietly

if TYPE_CHECKING:
    from torch import Generator, Tensor

VOCABULARY = 512
CONTEXT = 128
END_OF_TEXT = "<|endoftext|>"


class LanguageModelTask:
    """Predict the next token of Shakespeare; cross-entropy in nats per token."""

    def __init__(self, recipe: Recipe) -> None:
        import torch
        from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

        self.recipe = recipe
        self.tokenizer = train_tokenizer(training_text())
        self._training = torch.tensor(self.tokenizer.encode(training_text()).ids)
        config = GPTNeoXConfig(
            vocab_size=self.tokenizer.get_vocab_size(),
            hidden_size=recipe.width,
            num_hidden_layers=recipe.depth,
            num_attention_heads=recipe.heads,
            intermediate_size=4 * recipe.width,
            max_position_embeddings=CONTEXT,
            bos_token_id=0,
            eos_token_id=0,
        )
        self.module: Any = GPTNeoXForCausalLM(config)

    def loss(self, generator: "Generator") -> "Tensor":
        """Return the cross-entropy of a batch of windows."""
        import torch

        last = len(self._training) - CONTEXT - 1
        starts = torch.randint(last, (self.recipe.batch_size,), generator=generator)
        windows = self._training[starts[:, None] + torch.arange(CONTEXT + 1)]
        return self._cross_entropy(windows)

    def figures(self) -> Figures:
        """Return held-out loss next to that of a unigram model, in nats per token."""
        import torch

        text = held_out_text()
        tokens = torch.tensor(self.tokenizer.encode(text).ids)
        whole = (len(tokens) - 1) // CONTEXT
        starts = torch.arange(whole)[:, None] * CONTEXT
        windows = tokens[starts + torch.arange(CONTEXT + 1)]
        with torch.inference_mode():
            losses = [
                float(self._cross_entropy(part)) * len(part) for part in torch.split(windows, 64)
            ]
        loss = sum(losses) / whole
        bytes_per_token = len(text.encode()) / len(tokens)
        return {
            "held_out_loss": loss,
            "unigram_loss": self._unigram_loss(windows[:, 1:].numpy()),
            "bits_per_byte": float(loss / np.log(2) / bytes_per_token),
            "held_out_tokens": float(whole * CONTEXT),
        }

    def save(self, directory: Path) -> None:
        """Write the model and its tokenizer as transformers does."""
        import transformers

        save_quietly(self.module, directory)
        tokenizer_class: Any = transformers.PreTrainedTokenizerFast
        tokenizer_class(
            tokenizer_object=self.tokenizer,
            eos_token=END_OF_TEXT,
            bos_token=END_OF_TEXT,
            model_max_length=CONTEXT,
        ).save_pretrained(directory)

    def _cross_entropy(self, windows: "Tensor") -> "Tensor":
        from torch.nn.functional import cross_entropy

        logits = self.module(windows[:, :-1], use_cache=False).logits
        return cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())

    def _unigram_loss(self, targets: np.ndarray) -> float:
        counts = np.bincount(self._training.numpy(), minlength=self.tokenizer.get_vocab_size())
        # one of each, so that no token is impossible
        frequencies = (counts + 1) / (counts + 1).sum()
        return float(-np.log(frequencies[targets]).mean())


def train_tokenizer(text: str) -> Any:
    """Return a byte-level BPE tokenizer of the text; no text is beyond it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer
