"""Which tokens (or patches) of a sample become rows: all, the last, every k-th, or a sample."""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from repalign.exceptions import InputError


@dataclass(frozen=True)
class TokenChoice:
    """A rule that keeps some positions of every sample."""

    kind: Literal["all", "last", "stride", "sample"]
    number: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}" if self.number else self.kind

    def positions(self, length: int, *, seed: int, sample_hash: bytes) -> NDArray[np.int64]:
        """Positions kept of a sample of ``length`` tokens, increasing.

        A random choice depends on the seed and on the sample's content alone, so that it is
        the same wherever the sample stands and whichever worker reads it.
        """
        everything = np.arange(length, dtype=np.int64)
        if self.kind == "last":
            return everything[-1:]
        if self.kind == "stride":
            return everything[:: self.number]
        if self.kind == "sample" and self.number < length:
            rng = np.random.default_rng([seed, int.from_bytes(sample_hash[:8], "big")])
            return np.sort(rng.choice(length, size=self.number, replace=False)).astype(np.int64)
        return everything


def parse_tokens(text: str) -> TokenChoice:
    """Parse ``all``, ``last``, ``stride:k`` or ``sample:n``.

    Raises InputError for anything else.
    """
    if text == "all":
        return TokenChoice("all")
    if text == "last":
        return TokenChoice("last")
    match = re.fullmatch(r"(stride|sample):([1-9]\d{0,8})", text)
    if match is None:
        raise InputError(f"unknown token choice {text!r}; expected all, last, stride:k or sample:n")
    kind: Literal["stride", "sample"] = "stride" if match[1] == "stride" else "sample"
    return TokenChoice(kind, int(match[2]))
