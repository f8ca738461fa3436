"""The bytes of the tokens of a transformers tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ._onedraw import ModelError, Tokenizer

_tables: WeakKeyDictionary[Any, tuple[int, Tokenizer | None]] = WeakKeyDictionary()
"""For each tokenizer, its number of tokens and what onedraw read of it. Reading takes long, so it is done
once. The entry does not keep the tokenizer alive."""


class Pieces:
    """The bytes that tokens add to a text."""

    window = 16
    """How many tokens are decoded to find what the last of them adds: more than the tokens of one
    character."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.table = _table(tokenizer)

    def last(self, tokens: Sequence[int]) -> bytes:
        """The bytes of the last token of a text."""
        if self.table is not None:
            return self.table.bytes(tokens[-1])
        if self.tokenizer is None:
            return b""
        ends = list(tokens[-self.window :])
        # A decoder shows an incomplete character as U+FFFD at the end. It counts once it is complete.
        before, after = (self._decoded(part) for part in (ends[:-1], ends))
        return after[len(before) :].encode()

    def _decoded(self, tokens: list[int]) -> str:
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.rstrip("\ufffd")


def _table(tokenizer: Any) -> Tokenizer | None:
    """The tokenizer as onedraw reads it; None if it cannot, and then the tokenizer's own decoder is used."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    # Tokens can be added to a tokenizer later.
    size = len(tokenizer)
    try:
        known = _tables.get(tokenizer)
    except TypeError:  # A tokenizer that cannot be hashed.
        return _read(tokenizer)
    if known is None or known[0] != size:
        known = _tables[tokenizer] = (size, _read(tokenizer))
    return known[1]


def _read(tokenizer: Any) -> Tokenizer | None:
    try:
        return Tokenizer.from_json(tokenizer.backend_tokenizer.to_str())
    except ModelError:
        return None  # A kind of tokenizer that onedraw does not read.
