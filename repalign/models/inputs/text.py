"""From texts to padded batches of token ids."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repalign.exceptions import InputError, ModelError, reading
from repalign.models.checkpoints import check_directory, read_json
from repalign.models.encoder import MODEL_ERRORS, Encoder, panics_as_errors
from repalign.models.inputs.items import CHECKED_TOKENS, Inputs, Item, check_lengths

DEFAULT_MAX_LENGTH = 2048
TokenIds = NDArray[np.int64]
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)


@dataclass(frozen=True, eq=False)
class TextInputs(Inputs):
    """A tokenizer with the limits of the model it feeds.

    Attributes:
        tokenizer: Of the library tokenizers.
        pad_id: Fills the right side, and is never seen by the model.
        max_length: Most tokens, special ones included; longer texts are cut on the right.
        vocabulary_rows: Token ids that the model embeds.
        needs_mask: The model would see padding without a mask.
        sha256: Of the tokenizer.
    """

    tokenizer: Any
    pad_id: int
    max_length: int
    vocabulary_rows: int
    needs_mask: bool
    sha256: str
    longest: str
    unit = "tokens"
    key = "input_ids"
    in_bulk = True

    def count_first(self, *, is_pooled: bool) -> int:
        """Return how many first texts show the rows of a text."""
        return 16 if is_pooled else 256

    def encode(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return the token ids of each text, special tokens included, cut to ``max_length``."""
        return [item.values for item in self.prepare_all(texts)]

    def prepare(self, value: str) -> Item:
        """Tokenise one text."""
        return self.prepare_all([value])[0]

    def prepare_all(self, values: Sequence[str]) -> list[Item]:
        """Tokenise texts at once."""
        # tokenizers raises Exception itself, for instance of a vocabulary without the unknown token
        errors = reading("the tokenizer", Exception, failure=ModelError, problem="cannot encode")
        with errors, panics_as_errors():
            encodings = self.tokenizer.encode_batch_fast(list(values), add_special_tokens=True)
        return [
            Item(
                np.asarray(encoding.ids, dtype=np.int64),
                len(encoding.ids),
                is_cut=len(encoding.overflowing) > 0,
            )
            for encoding in encodings
        ]

    def states(self, item: Item, sample: str) -> int:
        """Return the number of states that a text gives: its tokens.

        Raises InputError for a text without tokens, ModelError for an id that the embedding
        does not have.
        """
        ids = item.values
        if len(ids) == 0:
            raise InputError(
                f"the text of sample {sample} gives no tokens; remove it from the data"
            )
        if ids.max() >= self.vocabulary_rows:
            raise ModelError(
                f"token id {ids.max()} in sample {sample}, but the model embeds only "
                f"{self.vocabulary_rows} ids: this tokenizer belongs to another model"
            )
        return len(ids)

    def default_budget(self, device: str) -> int:
        """Return the tokens of a batch on a kind of device."""
        return 1024 if device == "cpu" else 131072

    def collate(self, items: Sequence[Item]) -> tuple[dict[str, Tensor], Tensor]:
        """Pad token ids on the right; return inputs and lengths, on the host."""
        return pad_batch([item.values for item in items], self.pad_id, masked=self.needs_mask)

    def check_items(self, items: Sequence[Item]) -> list[Item]:
        """Return short texts of other lengths, of which batches are checked."""
        return check_lengths(items, CHECKED_TOKENS)

    def as_dict(self) -> dict[str, object]:
        """Return the tokenizer as plain values for a store's spec."""
        return {
            "sha256": self.sha256,
            "pad_id": self.pad_id,
            "side": "right",
            "max_length": self.max_length,
        }

    def __str__(self) -> str:
        """Describe the preparation in a line."""
        return f"tokenizer {self.sha256[:12]}, up to {self.longest}"


def load_text_inputs(
    encoder: Encoder, *, max_length: int | None = None, source: Path | None = None
) -> TextInputs:
    """Load the tokenizer in a model's directory, or in the directory ``source``.

    Raises ModelError when there is none or when it was made for another vocabulary, InputError
    for a length beyond the model's positions.
    """
    directory, rows = source or encoder.directory, encoder.vocabulary_rows
    if directory is None or rows is None:
        raise ModelError(f"{encoder.origin.model} is not a text model")
    check_directory(directory)
    if not any((directory / file).is_file() for file in _TOKENIZER_FILES):
        raise ModelError(
            f"no tokenizer in {directory.name}; expected {', '.join(_TOKENIZER_FILES)}; give one "
            "with --tokenizer DIRECTORY"
        )
    wrapped = _load_tokenizer(directory)
    tokenizer = wrapped.backend_tokenizer
    words = tokenizer.get_vocab_size(with_added_tokens=False)
    if words > rows:
        raise ModelError(
            f"the tokenizer in {directory.name} knows {words} tokens, the model embeds {rows}: it "
            "belongs to another model; give the right --tokenizer"
        )
    limit = encoder.max_length
    if max_length is not None and limit is not None and max_length > limit:
        raise InputError(
            f"--max-length {max_length}, but the model has {limit} positions; lower it"
        )
    length = max_length or min(limit or DEFAULT_MAX_LENGTH, DEFAULT_MAX_LENGTH)
    tokenizer.no_padding()
    tokenizer.enable_truncation(length)
    # The config comes first: RoBERTa counts positions by comparing with its own padding id.
    candidates = (encoder.pad_id, wrapped.pad_token_id, wrapped.eos_token_id, 0)
    return TextInputs(
        tokenizer=tokenizer,
        pad_id=next(i for i in candidates if isinstance(i, int) and 0 <= i < rows),
        max_length=length,
        vocabulary_rows=rows,
        needs_mask=encoder.needs_mask,
        sha256=hashlib.sha256(tokenizer.to_str().encode()).hexdigest(),
        longest=f"{length} tokens",
    )


def pad_batch(
    ids: Sequence[TokenIds], pad_id: int, *, masked: bool
) -> tuple[dict[str, Tensor], Tensor]:
    """Pad token ids on the right; return inputs and lengths, on the host.

    The mask, where the model needs one, is boolean ``(batch, width)``; there is none when no
    sample is padded.
    """
    lengths = np.array([len(sample) for sample in ids], dtype=np.int64)
    width = int(lengths.max())
    padded = np.full((len(ids), width), pad_id, dtype=np.int64)
    for row, sample in enumerate(ids):
        padded[row, : len(sample)] = sample
    inputs = {"input_ids": torch.from_numpy(padded)}
    if masked and lengths.min() < width:
        inputs["attention_mask"] = torch.from_numpy(np.arange(width) < lengths[:, None])
    return inputs, torch.from_numpy(lengths)


def _load_tokenizer(directory: Path) -> Any:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    config = directory / "tokenizer_config.json"
    if config.is_file() and "auto_map" in read_json(config):
        raise ModelError(
            f"the tokenizer in {directory.name} wants to run its own code (auto_map); refused"
        )
    # tokenizer.json is the whole pipeline and is taken as it is; the automatic choice goes by
    # the model type and may rebuild another pipeline from the vocabulary alone.
    has_pipeline = (directory / "tokenizer.json").is_file()
    loader: Any = PreTrainedTokenizerFast if has_pipeline else AutoTokenizer
    # tokenizers raises Exception itself for a tokenizer.json of another form
    problem = "not a usable tokenizer, give one with --tokenizer"
    errors = reading(directory.name, *MODEL_ERRORS, Exception, failure=ModelError, problem=problem)
    with errors, panics_as_errors():
        wrapped = loader.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    if not isinstance(wrapped, PreTrainedTokenizerFast):
        raise ModelError(f"the tokenizer in {directory.name} is of an old, slow kind; convert it")
    return wrapped
