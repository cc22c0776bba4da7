"""From text to padded batches of token ids."""

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
from repalign.models.loaders.boundary import MODEL_ERRORS, panics_as_errors
from repalign.models.loaders.files import check_directory, read_json
from repalign.models.loaders.loaded import LoadedModel

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
class TextEncoder:
    """A tokenizer with the limits of the model it feeds.

    ``max_length`` counts special tokens; longer texts are cut on the right. ``pad_id`` fills
    the right side and is never seen by the model.
    """

    tokenizer: Any
    pad_id: int
    max_length: int
    vocabulary_rows: int
    sha256: str

    def encode(self, texts: Sequence[str]) -> list[TokenIds]:
        """Token ids of each text, special tokens included, cut to ``max_length``."""
        return self.encode_telling(texts)[0]

    def encode_telling(self, texts: Sequence[str]) -> tuple[list[TokenIds], NDArray[np.bool_]]:
        """Token ids of each text, and whether it was cut."""
        # tokenizers raises Exception itself, for instance of a vocabulary without the unknown token
        errors = reading("the tokenizer", Exception, failure=ModelError, problem="cannot encode")
        with errors, panics_as_errors():
            encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=True)
        ids = [np.asarray(encoding.ids, dtype=np.int64) for encoding in encodings]
        return ids, np.array([len(encoding.overflowing) > 0 for encoding in encodings], dtype=bool)

    def check(self, ids: TokenIds, sample: str) -> None:
        """Refuse token ids that the model cannot take.

        Raises InputError for a text without tokens, ModelError for an id that the embedding
        does not have.
        """
        if len(ids) == 0:
            raise InputError(
                f"the text of sample {sample} gives no tokens; remove it from the data"
            )
        if ids.max() >= self.vocabulary_rows:
            raise ModelError(
                f"token id {ids.max()} in sample {sample}, but the model embeds only "
                f"{self.vocabulary_rows} ids: this tokenizer belongs to another model"
            )

    def as_dict(self) -> dict[str, object]:
        """The tokenizer as plain values for a store's spec."""
        return {
            "sha256": self.sha256,
            "pad_id": self.pad_id,
            "side": "right",
            "max_length": self.max_length,
        }


def load_text_encoder(
    model: LoadedModel, *, max_length: int | None = None, source: Path | None = None
) -> TextEncoder:
    """Load the tokenizer beside a model, or from the directory ``source``.

    Raises ModelError when there is none or when it was made for another vocabulary, InputError
    for a length beyond the model's positions.
    """
    directory = source if source is not None else model.directory
    if directory is None or model.vocabulary_rows is None:
        raise ModelError(f"{model.origin.model} is no text model")
    check_directory(directory)
    if not any((directory / file).is_file() for file in _TOKENIZER_FILES):
        raise ModelError(
            f"no tokenizer in {directory.name}; expected {', '.join(_TOKENIZER_FILES)}; give one "
            "with --tokenizer DIRECTORY"
        )
    wrapped = _load_tokenizer(directory)
    tokenizer = wrapped.backend_tokenizer
    words = tokenizer.get_vocab_size(with_added_tokens=False)
    if words > model.vocabulary_rows:
        raise ModelError(
            f"the tokenizer in {directory.name} knows {words} tokens, the model embeds "
            f"{model.vocabulary_rows}: it belongs to another model; give the right --tokenizer"
        )
    length = _length(max_length, model.max_length)
    tokenizer.no_padding()
    tokenizer.enable_truncation(length)
    return TextEncoder(
        tokenizer=tokenizer,
        pad_id=_pad_id(model, wrapped),
        max_length=length,
        vocabulary_rows=model.vocabulary_rows,
        sha256=hashlib.sha256(tokenizer.to_str().encode()).hexdigest(),
    )


def pad_batch(
    ids: Sequence[TokenIds], pad_id: int, *, masked: bool
) -> tuple[dict[str, Tensor], Tensor]:
    """Pad token ids on the right; returns the model's inputs and the lengths, on the host.

    The mask, where the model needs one, is boolean ``(batch, 1, 1, width)``, to be widened to the
    form that transformers takes as it is; there is none when no sample is padded.
    """
    lengths = np.array([len(sample) for sample in ids], dtype=np.int64)
    width = int(lengths.max())
    padded = np.full((len(ids), width), pad_id, dtype=np.int64)
    for row, sample in enumerate(ids):
        padded[row, : len(sample)] = sample
    inputs = {"input_ids": torch.from_numpy(padded)}
    if masked and lengths.min() < width:
        real = torch.from_numpy(np.arange(width) < lengths[:, None])
        inputs["attention_mask"] = real[:, None, None, :]
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
    chosen: Any = PreTrainedTokenizerFast if has_pipeline else AutoTokenizer
    # tokenizers raises Exception itself for a tokenizer.json of another form
    problem = "not a usable tokenizer, give one with --tokenizer"
    errors = reading(directory.name, *MODEL_ERRORS, Exception, failure=ModelError, problem=problem)
    with errors, panics_as_errors():
        wrapped = chosen.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    if not isinstance(wrapped, PreTrainedTokenizerFast):
        raise ModelError(f"the tokenizer in {directory.name} is of an old, slow kind; convert it")
    return wrapped


def _length(wanted: int | None, limit: int | None) -> int:
    if wanted is None:
        return min(limit or DEFAULT_MAX_LENGTH, DEFAULT_MAX_LENGTH)
    if limit is not None and wanted > limit:
        raise InputError(f"--max-length {wanted}, but the model has {limit} positions; lower it")
    return wanted


def _pad_id(model: LoadedModel, wrapped: Any) -> int:
    # The config comes first: RoBERTa counts positions by comparing with its own padding id.
    candidates = (model.config.get("pad_token_id"), wrapped.pad_token_id, wrapped.eos_token_id, 0)
    rows = model.vocabulary_rows or 0
    return next(i for i in candidates if isinstance(i, int) and 0 <= i < rows)
